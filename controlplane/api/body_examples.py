"""Examples of request bodies for the API's document, by model; each is a value of its model, so none can be wrong."""

from datetime import UTC, datetime

from pydantic import BaseModel

from controlplane.contract.bodies.access import (
    CODE_PREFIX,
    EnrolmentRequest,
    EnrolmentRules,
    Scope,
    SessionStart,
    TokenCreate,
)
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRuleCreate,
    BurnRateCondition,
    ConfigFailedCondition,
    DriftCondition,
    DryRunCreate,
    InhibitRuleCreate,
    NodeClaimedCondition,
    RegressionCondition,
    Remedy,
    RequestsFailedCondition,
    RolloutWaitsCondition,
    SaturationCondition,
    Severity,
    SilenceCreate,
    Silenced,
    SymptomCondition,
    TelemetryLostCondition,
    TrafficChangedCondition,
)
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import TrialConfig
from controlplane.contract.bodies.people import ATTEMPT_PREFIX, SignInFinish
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutProposal, Stage
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.bodies.studies import (
    KnobRange,
    Objective,
    StudyClaim,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    TrialReport,
    TrialState,
)
from controlplane.contract.bodies.workload import PromptSetCreate, WorkloadCreate, WorkloadFormat
from controlplane.contract.changes.hooks import HookKind, HookSettings
from controlplane.contract.changes.verdicts import ArmAsked, VerdictAsked
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import (
    DeadLettersReplay,
    DestinationCreate,
    DestinationPreview,
    DestinationReplace,
)
from controlplane.contract.channels.inbound import EventCreate
from controlplane.contract.on_call.declared_alerting import AlertingSet, DeclaredRule
from controlplane.contract.on_call.incidents import (
    IncidentAcknowledge,
    IncidentCause,
    IncidentMerge,
    IncidentNoteCreate,
    IncidentResolve,
    IncidentSplit,
    RouteCreate,
)
from controlplane.contract.on_call.rollout_policies import FreezeCreate, Hours, PinCreate, RolloutPolicyCreate
from controlplane.contract.planning.hardware_forecast import HardwareCreate
from controlplane.contract.planning.measurement import Measurement
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan, TrialWanted
from controlplane.contract.planning.whatif import WhatIfCreate
from controlplane.contract.reports.model_shape import ModelShape

_KNOBS = {"max_num_batched_tokens": 1024, "max_num_seqs": 32}

_TTFT = Limit(metric="ttft", q=0.95, limit_s=0.8)

_FIVE_REQUESTS = (
    "eNptykEOgjAQheG7zHo0MwVEew5XNo0ptiZEQrGFhRLubku3Jm8z3z9qBdP5ZQa5wuT9ABKeobfmAwhxNiEF4EtLB+K0K5Hc"
    "d0vZjfZv5BxHb10EyQjd4B+ve+y/Lp2nDSG49+LinKpSdCSsCc+oCFlrVKLZiQuJTA3tJApVmdryVRWqMzGVt7pYo7Xe9A9A"
    "6TnJ"
)
_FIVE_PROMPTS = (
    "eNqLjlaKzC9VSMwrLk8tUkjLL1IoyUhVKM7IL9BTCCxNLS7JzM9TMLBSKM9ILUpVyCxWyK1UyC9KSS2yV9IxM4nVIUa7IWXajSjT"
    "bkyZdhOc2mMBY6tqoA=="
)
EXAMPLES: dict[str, dict[str, BaseModel]] = {
    AlertRuleCreate.__name__: {
        "absolute: a quantile over its limit": AlertRuleCreate(
            name="Chat: first token within 0.8 s",
            pool="chat",
            severity=Severity.PAGE,
            condition=AbsoluteCondition(kind="absolute", limits=[_TTFT], window_s=60, for_s=15),
        ),
        "absolute: the limits of a use case": AlertRuleCreate(
            name="Chat objectives", condition=AbsoluteCondition(kind="absolute", profile=UseCase.CHAT)
        ),
        "regression: slower than the baseline, mended by a study": AlertRuleCreate(
            name="Chat: slower than usual",
            pool="chat",
            condition=RegressionCondition(kind="regression", q=[0.95, 0.99], baseline_s=21600),
            remedy=Remedy(study=StudyCreate(pool="chat", objective="ttft"), cooldown_s=1800),
        ),
        "requests_failed: more are lost than normal": AlertRuleCreate(
            name="Chat: requests lost",
            pool="chat",
            condition=RequestsFailedCondition(kind="requests_failed", allowed_share=0.02),
        ),
        "burn_rate: the budget of an objective is used up too fast": AlertRuleCreate(
            name="Chat: first token, budget",
            pool="chat",
            severity=Severity.PAGE,
            condition=BurnRateCondition(kind="burn_rate", objectives=[_TTFT]),
        ),
        "saturation: more arrives than is served": AlertRuleCreate(
            name="Chat: requests wait",
            pool="chat",
            severity=Severity.PAGE,
            condition=SaturationCondition(kind="saturation", profile=UseCase.CHAT, horizon_s=900),
        ),
        "traffic_changed: a surge, or longer prompts": AlertRuleCreate(
            name="Chat: traffic",
            pool="chat",
            severity=Severity.TICKET,
            condition=TrafficChangedCondition(kind="traffic_changed", baseline_s=21600),
        ),
        "symptom: requests wait though memory is free": AlertRuleCreate(
            name="Chat: a knob holds requests back",
            pool="chat",
            severity=Severity.TICKET,
            condition=SymptomCondition(kind="symptom", symptom="waiting_with_free_kv", threshold=3),
        ),
        "drift: a node does not run what it should": AlertRuleCreate(
            name="Drift", severity=Severity.TICKET, condition=DriftCondition(kind="drift", for_s=60)
        ),
        "config_failed: a node could not bring up a configuration": AlertRuleCreate(
            name="Configuration failed", condition=ConfigFailedCondition(kind="config_failed", hold_s=300)
        ),
        "node_claimed: two agents claim one node": AlertRuleCreate(
            name="Two agents, one node",
            severity=Severity.TICKET,
            condition=NodeClaimedCondition(kind="node_claimed", hold_s=600),
        ),
        "rollout_waits: a rollout waits for somebody": AlertRuleCreate(
            name="A rollout waits",
            severity=Severity.TICKET,
            condition=RolloutWaitsCondition(kind="rollout_waits", after_s=60),
        ),
        "telemetry_lost: an agent dropped reports": AlertRuleCreate(
            name="Telemetry lost",
            severity=Severity.TICKET,
            condition=TelemetryLostCondition(kind="telemetry_lost", quiet_s=300),
        ),
    },
    DestinationPreview.__name__: {
        "a chat's title": DestinationPreview(
            kind=DestinationKind.SLACK, title_template="{{ pool | upper }}: {{ summary }}"
        )
    },
    DeadLettersReplay.__name__: {"two of them": DeadLettersReplay(ids=[17, 23])},
    DestinationReplace.__name__: {
        "a pager told of pages alone": DestinationReplace(
            name="on-call", url_kept=True, secret_kept=True, only=Silenced(matchers={"severity": "page"})
        )
    },
    DestinationCreate.__name__: {
        "a signed webhook": DestinationCreate(name="on-call", url="https://pager.example/hook", secret="a long secret")
    },
    SilenceCreate.__name__: {
        "one pool for a night": SilenceCreate(
            matchers={"pool": "chat", "severity": "ticket"},
            ends_at=datetime(2030, 1, 1, 6, tzinfo=UTC),
            comment="load test",
        ),
        "every chat pool": SilenceCreate(
            patterns={"pool": "chat-.*"}, ends_at=datetime(2030, 1, 1, 6, tzinfo=UTC), comment="a migration"
        ),
    },
    InhibitRuleCreate.__name__: {
        "a pool's tickets while it pages": InhibitRuleCreate(
            name="pages before tickets",
            source=Silenced(matchers={"severity": "page"}),
            target=Silenced(matchers={"severity": "ticket"}),
        )
    },
    AlertingSet.__name__: {
        "what a file of one rule would change": AlertingSet(
            alert_rules=[
                DeclaredRule(
                    name="Chat objectives", origin="chat.toml", condition=AbsoluteCondition(profile=UseCase.CHAT)
                )
            ],
            dry_run=True,
        )
    },
    Silenced.__name__: {"what a silence of every chat pool would hold": Silenced(patterns={"pool": "chat-.*"})},
    IncidentAcknowledge.__name__: {"with a word": IncidentAcknowledge(comment="taking revision 2 back")},
    IncidentNoteCreate.__name__: {"a note": IncidentNoteCreate(text="the new prompt template doubled the prompts")},
    IncidentMerge.__name__: {"take incident 4 in": IncidentMerge(incident_id=4)},
    IncidentSplit.__name__: {"one alert": IncidentSplit(alert_ids=[12], reason="its node's disk is full")},
    IncidentCause.__name__: {"a kind": IncidentCause(cause=CauseKind.LOAD, comment="a batch job of another team")},
    IncidentResolve.__name__: {"a reason": IncidentResolve(reason="a load test, which is over")},
    RouteCreate.__name__: {
        "the chat pool's": RouteCreate(name="chat", matchers={"pool": "chat"}, owner="team-chat"),
        "everything else, whatever the pool": RouteCreate(name="rest", owner="platform", group_by=[]),
    },
    TokenCreate.__name__: {
        "for a dashboard": TokenCreate(name="wallboard", scope=Scope.READ),
        "for the enrolment of 16 nodes": TokenCreate(
            name="rack 7",
            scope=Scope.ENROL,
            expires_at=datetime(2100, 1, 1, tzinfo=UTC),
            enrolment=EnrolmentRules(uses=16, pools=["chat"], roles=["serving"], nodes="rack7-*"),
        ),
    },
    SignInFinish.__name__: {
        "as the issuer has sent the browser back": SignInFinish(
            secret=f"{ATTEMPT_PREFIX}1800000000_" + "k7Q" * 14 + "w",
            state="k7Q" * 14 + "w",
            code="SplxlOBeZQQYbYS6WxSbIA",
            iss="https://issuer.example",
        )
    },
    SessionStart.__name__: {"by a link's code": SessionStart(code=CODE_PREFIX + "k7Q" * 14 + "w")},
    EnrolmentRequest.__name__: {
        "a serving node": EnrolmentRequest(node="gpu-7", pool="chat", backend="vllm", role="serving")
    },
    RevisionCreate.__name__: {
        "two knobs over revision 1": RevisionCreate(base=1, knobs=_KNOBS, note="smaller batches for chat")
    },
    TrialConfig.__name__: {"two knobs, the others by default": TrialConfig(knobs=_KNOBS)},
    HookSettings.__name__: {
        "asked before other nodes are told": HookSettings(
            pool="chat",
            name="load test",
            kind=HookKind.CONFIRM_PROMOTION,
            url="https://ci.example/hooks/T0",
            secret="a-long-signing-secret",
        ),
        "told of every step": HookSettings(
            pool="chat", name="chat room", kind=HookKind.EVENT, url="https://chat.example/x"
        ),
    },
    RolloutPolicyCreate.__name__: {
        "in working hours, with a second pair of eyes": RolloutPolicyCreate(
            pool="chat",
            needs_approval=True,
            max_step_share=0.25,
            wave_by="region",
            wave_order=["eu-1"],
            wave_soak_s=600,
            hours=Hours(opens="09:00", closes="16:30", zone="Europe/London"),
        )
    },
    FreezeCreate.__name__: {
        "over a holiday": FreezeCreate(
            starts_at=datetime(2030, 12, 24, 12, tzinfo=UTC),
            ends_at=datetime(2030, 12, 27, 8, tzinfo=UTC),
            reason="holiday",
        )
    },
    PinCreate.__name__: {
        "a node that is being looked at": PinCreate(pool="chat", node="gpu-3", reason="its memory is being looked at")
    },
    RolloutCreate.__name__: {
        "by stages, with a person in between": RolloutCreate(
            pool="chat",
            revision=7,
            stages=[Stage(share=0), Stage(share=0.1), Stage(share=0.5, pause=True), Stage(share=1)],
            soak_s=600,
        ),
        "region by region": RolloutCreate(
            pool="chat", revision=7, canary_selector="region=eu-1, gpu in (H100, H200)", wave_by="region"
        ),
        "a judged canary": RolloutCreate(pool="chat", revision=2, canary_share=0.25, tolerance=0.1),
        "judged by one quantile and the limits of a use case": RolloutCreate(
            pool="chat", revision=2, objective="ttft", objective_q=0.95, limits=[_TTFT], profile=UseCase.CHAT
        ),
        "judged at other quantiles": RolloutCreate(
            pool="chat", revision=2, metrics=["ttft", "itl"], levels={"ttft": [0.5, 0.95], "itl": [0.999]}
        ),
        "revision 2, the cause of an alert, is taken back": RolloutCreate(
            pool="chat", revision=1, takes_back=2, reason="alert 3: revision 2 is slower"
        ),
        "at once, unjudged": RolloutCreate(pool="chat", revision=1, emergency=True, reason="revision 2 crashes"),
    },
    RolloutProposal.__name__: {
        "a changed knob, as a revision of its own": RolloutProposal(
            pool="chat", revision=2, knobs={"max_num_seqs": 64}, reason="long queues at noon"
        ),
        "a revision that is there": RolloutProposal(pool="chat", revision=2, tolerance=0.2),
        "at once, unjudged": RolloutProposal(pool="chat", revision=1, emergency=True, reason="revision 2 crashes"),
    },
    VerdictAsked.__name__: {
        "new pods beside the old ones": VerdictAsked(
            control=ArmAsked(pool=["chat"], node=["chat-primary-*"]), canary=ArmAsked(pool=["chat"], node=["chat-*"])
        ),
        "one node before and after a deploy": VerdictAsked(
            control=ArmAsked(node=["gpu-1"]),
            canary=ArmAsked(node=["gpu-1"]),
            start=datetime(2026, 1, 31, 12, tzinfo=UTC),
            control_start=datetime(2026, 1, 31, 10, tzinfo=UTC),
            control_end=datetime(2026, 1, 31, 11, 55, tzinfo=UTC),
        ),
    },
    DryRunCreate.__name__: {
        "a week of a symptom": DryRunCreate(
            rule=AlertRuleCreate(name="KV", condition=SymptomCondition(kind="symptom", symptom="kv_near_full")),
            window_s=604800,
        )
    },
    HardwareCreate.__name__: {
        "the pool's own model and traffic, elsewhere": HardwareCreate(
            pool="chat", accelerators=["h200", "b200"], tpot_limit_ms=30, prices={"h200": 3.5}
        ),
        "a model by its sizes, with so many always under way": HardwareCreate(
            model=ModelShape(
                layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, intermediate=28672, vocabulary=128256
            ),
            weights="fp8",
            prompt=1024,
            output=512,
            concurrency=64,
        ),
    },
    WhatIfCreate.__name__: {
        "twice the load, on one replica more": WhatIfCreate(pool="chat", load=2.0, replicas=3),
        "another token budget": WhatIfCreate(pool="chat", knobs={"max_num_batched_tokens": 1024}),
    },
    StudyCreate.__name__: {
        "the tail of the first token, under a limit": StudyCreate(
            pool="chat",
            objective="ttft",
            objective_q=0.95,
            constraints=[Limit(metric="itl", q=0.99, limit_s=0.2)],
            space={"max_num_batched_tokens": KnobRange(minimum=256, maximum=8192, log=True)},
        ),
        "more requests within the limits, on a day twice as busy": StudyCreate(
            pool="chat",
            objective="goodput",
            constraints=[_TTFT, Limit(metric="itl", q=0.99, limit_s=0.2)],
            load=2.0,
        ),
        "cheaper tokens, and what that costs in the first token's tail": StudyCreate(
            pool="chat",
            objective="cost",
            also=[Objective(objective="ttft", objective_q=0.95)],
            constraints=[_TTFT],
            node_hour_price=2.4,
            currency="EUR",
            max_duration_s=3600,
        ),
        "the largest load within the limits, at most nine replays a trial": StudyCreate(
            pool="chat",
            objective="max_load",
            constraints=[_TTFT],
            load_replays=9,
            max_duration_s=3600,
        ),
        "made-up traffic, before there is any": StudyCreate(pool="chat", workload="profile:chat@4"),
        "quantized weights, held to log-probabilities and an evaluation of one's own": StudyCreate(
            pool="chat",
            space={"quantization": KnobRange(choices=["none", "int8"])},
            most_logprob_drop=0.02,
            evaluation="mmlu",
            evaluation_margin=0.01,
        ),
        "careful, in production, at night": StudyCreate(
            pool="chat",
            objective="ttft",
            constraints=[Limit(metric="itl", q=0.99, limit_s=0.2)],
            space={"max_num_seqs": KnobRange(minimum=8, maximum=128)},
            online=OnlineMode(step=1.5, max_taken_back=2, hours=Hours(opens="22:00", closes="06:00")),
        ),
    },
    WorkloadCreate.__name__: {
        "five requests that begin alike": WorkloadCreate(
            name="friday", format=WorkloadFormat.MOONCAKE, traffic=_FIVE_REQUESTS
        )
    },
    PromptSetCreate.__name__: {"five prompts that begin alike": PromptSetCreate(name="support", prompts=_FIVE_PROMPTS)},
    EventCreate.__name__: {
        "a deploy of the gateway": EventCreate(
            kind="deploy",
            subject="gateway 4.2.1",
            time=datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
            labels={"pool": "chat"},
            link="https://ci.example/builds/4711",
        )
    },
    StudyClaim.__name__: {"a worker": StudyClaim(worker="tuner-1")},
    StudyHeartbeat.__name__: {"half way": StudyHeartbeat(worker="tuner-1", progress="6 of 12 trials")},
    StudyFinish.__name__: {
        "it could not be run": StudyFinish(worker="tuner-1", error="the pool has no trial node"),
    },
    NodeWanted.__name__: {"a trial node": NodeWanted(worker="tuner-1", node="trial-1")},
    TrialWanted.__name__: {"the next trial": TrialWanted(number=3, knobs=_KNOBS)},
    StudyPlan.__name__: {
        "what a study replays": StudyPlan(
            default=_KNOBS,
            traffic="eJyrVkrOSCxRslJQykgtSlWqBQAqBgU3",
            seen={"compressed": 1.0},
            fresh={"compressed": 1.0, "apart": True},
            serving=2,
            engine={"backend": "embedded", "model": "tiny", "formats": ["none", "int8"]},
        )
    },
    TrialReport.__name__: {
        "a measured trial": TrialReport(
            number=3,
            kind="search",
            knobs=_KNOBS,
            state=TrialState.COMPLETE,
            feasible=True,
            objective_s=0.42,
            violations={"itl:0.99": -0.25},
            measurement=Measurement(
                requests=40,
                errors=0,
                duration_s=31.5,
                quantiles={"ttft:0.95": 0.42, "itl:0.99": 0.15},
                output_tokens_per_s=410.0,
            ),
        )
    },
}
"""Model's name to title to body."""
