"""What the service keeps: tokens, nodes, configurations, rollouts, studies, alerts, and the ledger of it all."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import httpx

from controlplane.client.connection import Connection, segment
from controlplane.client.raised_errors import raise_for_error
from controlplane.contract.bodies.access import (
    EnrolmentReply,
    EnrolmentRequest,
    SessionStart,
    SessionStarted,
    SignInCode,
    TokenCreate,
    TokenCreated,
    TokenView,
)
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    DryRun,
    DryRunCreate,
    InhibitRule,
    InhibitRuleCreate,
    Silence,
    SilenceCreate,
    Silenced,
    SymptomList,
    SymptomView,
)
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.bodies.health import ReadyReport, ServiceView
from controlplane.contract.bodies.ledger import LedgerCheck, LedgerEntry
from controlplane.contract.bodies.nodes import FleetColumns, FleetOutline, NodeRole, NodeView, TrialConfig
from controlplane.contract.bodies.onboarding import Onboarding
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.people import Person, PersonalData, SessionView, SignInBegun, SignInFinish, SignInWays
from controlplane.contract.bodies.rollouts import Rollout, RolloutAction, RolloutCreate, RolloutForecast
from controlplane.contract.bodies.studies import (
    Study,
    StudyClaim,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyState,
    Trial,
    TrialReport,
)
from controlplane.contract.bodies.workload import (
    KeptPromptSet,
    KeptTraffic,
    KeptWorkload,
    PromptSetCreate,
    PromptSetText,
    Workload,
    WorkloadCreate,
)
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.contract.changes.hooks import Hook, HookSettings
from controlplane.contract.changes.verdicts import VerdictAnswer, VerdictAsked
from controlplane.contract.channels.destinations import (
    DeadLettersReplay,
    DeadLettersReplayed,
    Delivery,
    Destination,
    DestinationCreate,
    DestinationPreview,
    DestinationPreviewed,
    DestinationReplace,
)
from controlplane.contract.errors import NotFound
from controlplane.contract.on_call.declared_alerting import AlertingChanges, AlertingSet
from controlplane.contract.on_call.incidents import (
    Incident,
    IncidentAcknowledge,
    IncidentDetail,
    IncidentMerge,
    IncidentNote,
    IncidentNoteCreate,
    IncidentResolve,
    IncidentSplit,
    Route,
    RouteCreate,
)
from controlplane.contract.on_call.rollout_policies import (
    Freeze,
    FreezeCreate,
    Pin,
    PinCreate,
    RolloutPolicy,
    RolloutPolicyCreate,
)
from controlplane.contract.planning.advice import Advice
from controlplane.contract.planning.hardware_forecast import HardwareCreate, HardwareForecast
from controlplane.contract.planning.packed_traffic import unpacked
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan, TrialLease, TrialWanted
from controlplane.contract.planning.whatif import ForecastUnderWay, WhatIf, WhatIfCreate

DRY_RUN_TIMEOUT_S = 90.0
WHAT_IF_TURN_S, WHAT_IF_TIMEOUT_S = 20.0, 210.0
"""Below what proxies allow; a service of before `wait_s` answers at the end alone."""
APPLY_TIMEOUT_S = 60.0
TRY_TIMEOUT_S = 30.0
"""Of what waits for somebody else's receiver, which has ten seconds."""


class ResourceCalls(Connection):
    """Each resource read, made and changed."""

    # Health, tokens, enrolment.

    def ready(self) -> bool:
        """True when reports are accepted and durable."""
        return self._http.get("/readyz").status_code == 200

    def ready_report(self) -> ReadyReport:
        """What is ready, and what is degraded; also of a service that is not ready."""
        answer = self._http.get("/readyz")
        if answer.status_code not in {200, 503}:
            raise_for_error(answer)
        return ReadyReport.model_validate_json(answer.content)

    def whoami(self) -> TokenView:
        return self._one(TokenView, "GET", "/api/v1/tokens/self")

    def create_token(self, wanted: TokenCreate) -> TokenCreated:
        return self._one(TokenCreated, "POST", "/api/v1/tokens", body=wanted)

    def tokens(self) -> list[TokenView]:
        return list(self.every(TokenView, "/api/v1/tokens"))

    def revoke_token(self, token_id: int) -> None:
        self._request("DELETE", f"/api/v1/tokens/{token_id}")

    def create_sign_in_code(self) -> SignInCode:
        """What signs one browser in, once, at /login?code=..."""
        return self._one(SignInCode, "POST", "/api/v1/sign-in-codes")

    def start_session(self, wanted: SessionStart) -> SessionStarted:
        """Use up a sign-in code; needs no token."""
        return self._one(SessionStarted, "POST", "/api/v1/sessions", body=wanted)

    def sign_in_ways(self) -> SignInWays:
        """How a browser may be signed in; needs no token."""
        return self._one(SignInWays, "GET", "/api/v1/sign-in")

    def begin_sign_in(self) -> SignInBegun:
        """Begin to sign a browser in at the issuer; needs no token."""
        return self._one(SignInBegun, "POST", "/api/v1/sign-in/begin")

    def finish_sign_in(self, wanted: SignInFinish) -> SessionStarted:
        """Prove who has come back from the issuer; needs no token."""
        return self._one(SessionStarted, "POST", "/api/v1/sign-in/finish", body=wanted)

    def people(self) -> list[Person]:
        """Who has signed in at the issuer; needs scope admin."""
        return list(self.every(Person, "/api/v1/people"))

    def personal_data(self, person_id: int) -> PersonalData:
        """All that is kept of a person, with every entry of the ledger; for an admin, or the person itself."""
        path = f"/api/v1/people/{person_id}/data"
        data = self._one(PersonalData, "GET", path)
        while data.next is not None:
            older = self._one(PersonalData, "GET", path, params={"cursor": data.next})
            data.entries += older.entries
            data.next = older.next
        return data

    def forget_person(self, person_id: int) -> None:
        """Remove what is kept of a person; for an admin, or the person itself."""
        self._request("DELETE", f"/api/v1/people/{person_id}")

    def sessions(self) -> list[SessionView]:
        """Open sessions of browsers: everybody's for an admin, else one's own."""
        return list(self.every(SessionView, "/api/v1/sessions"))

    def own_session(self) -> SessionView:
        """The browser's session whose secret this client has."""
        return self._one(SessionView, "GET", "/api/v1/sessions/self")

    def end_one_session(self, session_id: int) -> None:
        self._request("DELETE", f"/api/v1/sessions/{session_id}")

    def end_session(self) -> None:
        """End the browser's session whose secret this client has."""
        self._request("DELETE", "/api/v1/sessions/self")

    def service(self) -> ServiceView:
        """What runs there: release, sizes, and the numbers it was started with."""
        return self._one(ServiceView, "GET", "/api/v1/service")

    def onboarding(self) -> Onboarding:
        """What a new service still lacks, and the command for each step."""
        return self._one(Onboarding, "GET", "/api/v1/onboarding")

    def enrol(self, wanted: EnrolmentRequest) -> EnrolmentReply:
        return self._one(EnrolmentReply, "POST", "/api/v1/enrol", body=wanted)

    # Nodes, and the configurations that they may run.

    def nodes(
        self, *, pool: str | None = None, role: NodeRole | None = None, selector: str | None = None
    ) -> list[NodeView]:
        """By name. `selector`: only those with such labels, as in "region=eu-1, gpu in (H100, H200), !spot"."""
        return list(self.every(NodeView, "/api/v1/nodes", pool=pool, role=role, selector=selector))

    def fleet(self, pool: str | None = None) -> FleetColumns:
        """Every node at once, as columns."""
        return self._one(FleetColumns, "GET", "/api/v1/fleet", params={"pool": pool})

    def fleet_outline(self, pool: str | None = None) -> FleetOutline:
        """What the fleet can be filtered by. `pool`: whose nodes are named."""
        return self._one(FleetOutline, "GET", "/api/v1/fleet/outline", params={"pool": pool})

    def node(self, node: str) -> NodeView:
        return self._one(NodeView, "GET", f"/api/v1/nodes/{segment(node)}")

    def reset_cache(self, node: str) -> NodeView:
        """Have a trial node empty its prefix cache: see `NodeView.desired_cache_reset`."""
        return self._one(NodeView, "POST", f"/api/v1/nodes/{segment(node)}/cache-reset")

    def set_trial_config(self, node: str, wanted: TrialConfig) -> NodeView:
        return self._one(NodeView, "PUT", f"/api/v1/nodes/{segment(node)}/trial-config", body=wanted)

    def remove_node(self, node: str) -> None:
        """Forget it and end its tokens; its engine keeps running as it is."""
        self._request("DELETE", f"/api/v1/nodes/{segment(node)}")

    def release_node(self, node: str) -> NodeView:
        """Let another agent take its name within the next ten minutes."""
        return self._one(NodeView, "POST", f"/api/v1/nodes/{segment(node)}/release")

    def configs(self) -> list[Revision]:
        return list(self.every(Revision, "/api/v1/configs"))

    def config(self, number: int) -> Revision:
        return self._one(Revision, "GET", f"/api/v1/configs/{number}")

    def create_config(self, wanted: RevisionCreate) -> Revision:
        return self._one(Revision, "POST", "/api/v1/configs", body=wanted)

    # Rollouts of a revision to a pool.

    def rollouts(self) -> list[Rollout]:
        """Newest first."""
        return list(self.every(Rollout, "/api/v1/rollouts"))

    def rollout(self, rollout_id: int) -> Rollout:
        return self._one(Rollout, "GET", f"/api/v1/rollouts/{rollout_id}")

    def create_rollout(self, wanted: RolloutCreate | Mapping[str, Any], *, key: str | None = None) -> Rollout:
        """key: sent again with it, nothing is done twice."""
        return self._one(Rollout, "POST", "/api/v1/rollouts", body=wanted, headers=_keyed(key))

    def forecast_rollout(self, wanted: RolloutCreate | Mapping[str, Any]) -> RolloutForecast:
        """What this rollout would do; nothing of it is done."""
        return self._one(RolloutForecast, "POST", "/api/v1/rollouts", body=wanted, params={"dry_run": "true"})

    def change_rollout(
        self,
        rollout_id: int,
        what: RolloutAction,
        *,
        reason: str | None = None,
        if_match: str | None = None,
        key: str | None = None,
    ) -> Rollout:
        """Start, approve, pause, resume, abort, cancel, retry or revert it. reason: of a pause. Retry and revert answer
        with the rollout that they made. if_match: the `etag` it was read with; raises `PreconditionFailed` where it has
        moved since."""
        headers = _keyed(key) | ({} if if_match is None else {"If-Match": if_match})
        path = f"/api/v1/rollouts/{rollout_id}/{what}"
        return self._one(Rollout, "POST", path, params={"reason": reason}, headers=headers)

    def forecast_change(self, rollout_id: int, what: RolloutAction) -> RolloutForecast:
        """What this would do to the rollout; nothing of it is done."""
        path = f"/api/v1/rollouts/{rollout_id}/{what}"
        return self._one(RolloutForecast, "POST", path, params={"dry_run": "true"})

    def start_rollout(self, rollout_id: int) -> Rollout:
        return self.change_rollout(rollout_id, RolloutAction.START)

    def approve_rollout(self, rollout_id: int) -> Rollout:
        """Begin what another has proposed and waits for an approval."""
        return self.change_rollout(rollout_id, RolloutAction.APPROVE)

    def blast_radius(self, rollout_id: int) -> BlastRadius:
        """What it would reach if it began now."""
        return self._one(BlastRadius, "GET", f"/api/v1/rollouts/{rollout_id}/blast-radius")

    def preview_blast_radius(self, wanted: RolloutCreate | Mapping[str, Any]) -> BlastRadius:
        """The same of a rollout that nobody has proposed yet."""
        return self._one(BlastRadius, "POST", "/api/v1/rollouts:blast-radius", body=wanted)

    def verdict(self, rollout_id: int) -> VerdictAnswer:
        """Pass, fail or inconclusive, of a rollout."""
        return self._one(VerdictAnswer, "GET", f"/api/v1/verdicts/{rollout_id}")

    def ask_verdict(self, wanted: VerdictAsked | Mapping[str, Any]) -> VerdictAnswer:
        """The same of two arms that somebody else runs."""
        return self._one(VerdictAnswer, "POST", "/api/v1/verdicts", body=wanted)

    def cancel_rollout(self, rollout_id: int) -> Rollout:
        """Before it began: cancelled. While it runs: rolled back."""
        return self.change_rollout(rollout_id, RolloutAction.CANCEL)

    # Policies, freeze windows and pins.

    def rollout_policies(self) -> list[RolloutPolicy]:
        return list(self.every(RolloutPolicy, "/api/v1/rollout-policies"))

    def set_rollout_policy(self, wanted: RolloutPolicyCreate | Mapping[str, Any]) -> RolloutPolicy:
        """It replaces the pool's policy."""
        return self._one(RolloutPolicy, "PUT", "/api/v1/rollout-policies", body=wanted)

    def remove_rollout_policy(self, policy_id: int) -> None:
        self._request("DELETE", f"/api/v1/rollout-policies/{policy_id}")

    def rollout_hooks(self) -> list[Hook]:
        """Newest first, without their secrets."""
        return list(self.every(Hook, "/api/v1/rollout-hooks"))

    def set_rollout_hook(self, wanted: HookSettings | Mapping[str, Any]) -> Hook:
        """It replaces the pool's hook of that name."""
        return self._one(Hook, "PUT", "/api/v1/rollout-hooks", body=wanted)

    def remove_rollout_hook(self, hook_id: int) -> None:
        self._request("DELETE", f"/api/v1/rollout-hooks/{hook_id}")

    def freezes(self) -> list[Freeze]:
        """Newest first, those that are over too."""
        return list(self.every(Freeze, "/api/v1/freezes"))

    def create_freeze(self, wanted: FreezeCreate) -> Freeze:
        return self._one(Freeze, "POST", "/api/v1/freezes", body=wanted)

    def lift_freeze(self, freeze_id: int) -> None:
        self._request("DELETE", f"/api/v1/freezes/{freeze_id}")

    def pins(self) -> list[Pin]:
        return list(self.every(Pin, "/api/v1/pins"))

    def create_pin(self, wanted: PinCreate) -> Pin:
        """The node or the pool keeps the revision that it should run now."""
        return self._one(Pin, "POST", "/api/v1/pins", body=wanted)

    def remove_pin(self, pin_id: int) -> None:
        self._request("DELETE", f"/api/v1/pins/{pin_id}")

    # Studies, for those who ask for them and for the worker that runs them.

    def studies(self, state: StudyState | None = None) -> list[Study]:
        """Newest first; those in this state, where one is named."""
        return list(self.every(Study, "/api/v1/studies", **({} if state is None else {"state": state.value})))

    def study(self, study_id: int) -> Study:
        return self._one(Study, "GET", f"/api/v1/studies/{study_id}")

    def create_study(self, wanted: StudyCreate | Mapping[str, Any], *, key: str | None = None) -> Study:
        """key: sent again with it, there is one study."""
        return self._one(Study, "POST", "/api/v1/studies", body=wanted, headers=_keyed(key))

    def cancel_study(self, study_id: int) -> Study:
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/cancel")

    def workloads(self) -> list[KeptWorkload]:
        """Newest first."""
        return list(self.every(KeptWorkload, "/api/v1/workloads"))

    def kept_workload(self, name: str) -> KeptWorkload:
        return self._one(KeptWorkload, "GET", f"/api/v1/workloads/{segment(name)}")

    def kept_traffic(self, name: str) -> Workload:
        """Raises NotFound for a name that none is kept under."""
        found = self._one(KeptTraffic, "GET", f"/api/v1/workloads/{segment(name)}/traffic")
        return unpacked(found.traffic)[0]

    def add_workload(self, wanted: WorkloadCreate) -> KeptWorkload:
        """Raises Conflict for a name that is taken."""
        return self._one(KeptWorkload, "POST", "/api/v1/workloads", body=wanted)

    def remove_workload(self, name: str) -> None:
        self._request("DELETE", f"/api/v1/workloads/{segment(name)}")

    def prompt_sets(self) -> list[KeptPromptSet]:
        """Newest first."""
        return list(self.every(KeptPromptSet, "/api/v1/prompt-sets"))

    def prompt_set(self, name: str) -> KeptPromptSet:
        return self._one(KeptPromptSet, "GET", f"/api/v1/prompt-sets/{segment(name)}")

    def prompt_set_text(self, name: str) -> PromptSetText:
        """Raises NotFound for a name that none is kept under."""
        return self._one(PromptSetText, "GET", f"/api/v1/prompt-sets/{segment(name)}/text")

    def add_prompt_set(self, wanted: PromptSetCreate) -> KeptPromptSet:
        """Raises Conflict for a name that is taken."""
        return self._one(KeptPromptSet, "POST", "/api/v1/prompt-sets", body=wanted)

    def remove_prompt_set(self, name: str) -> None:
        self._request("DELETE", f"/api/v1/prompt-sets/{segment(name)}")

    def trials(self, study_id: int, *, samples: bool = False) -> list[Trial]:
        """Newest first, those under way too. samples: with the single values of the winner's pairs."""
        wanted = {"samples": "true"} if samples else {}
        return list(self.every(Trial, f"/api/v1/studies/{study_id}/trials", **wanted))

    def study_report(self, study_id: int) -> bytes:
        """An HTML document that opens without the service, from its dashboard. Raises NotFound, also where that is not
        there."""
        return self._request("GET", f"/studies/{study_id}/report").content

    def claim_study(self, worker: str, evaluations: list[str] | None = None) -> Study | None:
        """evaluations: names of the commands that it has; None: any study will do."""
        claim = StudyClaim(worker=worker, evaluations=evaluations)
        answer = self._request("POST", "/api/v1/studies/claim", body=claim)
        return None if answer.status_code == 204 else Study.model_validate_json(answer.content)

    def heartbeat_study(self, study_id: int, beat: StudyHeartbeat) -> Study:
        """Extends the lease; raises Conflict when the study is no longer this worker's (cancelled, reclaimed)."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/heartbeat", body=beat)

    def keep_study_plan(self, study_id: int, worker: str, plan: StudyPlan) -> StudyPlan:
        """The plan that is kept: the first one given."""
        path, params = f"/api/v1/studies/{study_id}/plan", {"worker": worker}
        return self._one(StudyPlan, "PUT", path, body=plan, params=params)

    def study_plan(self, study_id: int) -> StudyPlan:
        """Raises NotFound while there is none."""
        return self._one(StudyPlan, "GET", f"/api/v1/studies/{study_id}/plan")

    def take_trial_node(self, study_id: int, wanted: NodeWanted) -> TrialLease:
        """Raises Conflict while another holds it."""
        return self._one(TrialLease, "POST", f"/api/v1/studies/{study_id}/leases", body=wanted)

    def renew_trial_lease(self, study_id: int, token: int) -> TrialLease:
        return self._one(TrialLease, "POST", f"/api/v1/studies/{study_id}/leases/{token}/renew")

    def release_trial_node(self, study_id: int, token: int) -> TrialLease:
        return self._one(TrialLease, "POST", f"/api/v1/studies/{study_id}/leases/{token}/release")

    def take_trial(self, study_id: int, token: int, wanted: TrialWanted) -> Trial:
        """Raises Conflict when the trial is another's, or the lease has ended."""
        return self._one(Trial, "POST", f"/api/v1/studies/{study_id}/leases/{token}/trial", body=wanted)

    def report_trial(self, study_id: int, token: int, report: TrialReport) -> Trial:
        """Raises Conflict when the lease has ended: the report does not count."""
        return self._one(Trial, "POST", f"/api/v1/studies/{study_id}/trials", body=report, params={"token": token})

    def finish_study(self, study_id: int, outcome: StudyFinish) -> Study:
        """Ends the study with its result or its error."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/finish", body=outcome)

    def what_if(self, asked: WhatIfCreate | Mapping[str, Any]) -> WhatIf:
        """The twin's forecast, which takes its seconds; it is ended soon after who asks is gone."""
        while isinstance(told := self.what_if_so_far(asked, WHAT_IF_TURN_S), ForecastUnderWay):
            pass
        return told

    def what_if_so_far(self, asked: WhatIfCreate | Mapping[str, Any], wait_s: float = 0.0) -> WhatIf | ForecastUnderWay:
        """As `what_if`, or how long it has taken so far. Who wants the answer asks the same again within seconds."""
        params = {"wait_s": wait_s}
        answer = self._request("POST", "/api/v1/whatif", body=asked, params=params, timeout_s=WHAT_IF_TIMEOUT_S)
        if answer.status_code == httpx.codes.ACCEPTED:
            return ForecastUnderWay.model_validate_json(answer.content)
        return WhatIf.model_validate_json(answer.content)

    def advice(
        self,
        pool: str,
        *,
        window: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        peak: float | None = None,
    ) -> Advice:
        """What binds a pool, what it carries, and what each technique could touch; peak: times the busiest step."""
        given = {"pool": pool, "window": window, "start": start, "end": end, "peak": peak}
        return self._one(Advice, "GET", "/api/v1/advice", params=given)

    def hardware(self, asked: HardwareCreate | Mapping[str, Any]) -> HardwareForecast:
        """What a model would do on accelerators that are not there."""
        return self._one(HardwareForecast, "POST", "/api/v1/hardware", body=asked)

    # Alerts: rules, what fired, where it is told, and what is kept quiet.

    def alert_rules(self) -> list[AlertRule]:
        return list(self.every(AlertRule, "/api/v1/alert-rules"))

    def create_alert_rule(self, wanted: AlertRuleCreate | Mapping[str, Any]) -> AlertRule:
        return self._one(AlertRule, "POST", "/api/v1/alert-rules", body=wanted)

    def update_alert_rule(self, rule_id: int, wanted: AlertRuleCreate | Mapping[str, Any]) -> AlertRule:
        return self._one(AlertRule, "PUT", f"/api/v1/alert-rules/{rule_id}", body=wanted)

    def delete_alert_rule(self, rule_id: int) -> None:
        self._request("DELETE", f"/api/v1/alert-rules/{rule_id}")

    def dry_run_rule(self, wanted: DryRunCreate | Mapping[str, Any]) -> DryRun:
        """When a rule would have fired; a long past takes its time."""
        path = "/api/v1/alert-rules:dry-run"
        return self._one(DryRun, "POST", path, body=wanted, timeout_s=DRY_RUN_TIMEOUT_S)

    def symptoms(self) -> list[SymptomView]:
        """The catalogue that rules of the kind `symptom` watch for."""
        return self._one(SymptomList, "GET", "/api/v1/symptoms").items

    def alerts(self, state: str | None = None) -> list[Alert]:
        """Newest first."""
        return list(self.every(Alert, "/api/v1/alerts", state=state))

    def alert(self, alert_id: int) -> Alert:
        return self._one(Alert, "GET", f"/api/v1/alerts/{alert_id}")

    def destinations(self) -> list[Destination]:
        return list(self.every(Destination, "/api/v1/destinations"))

    def create_destination(self, wanted: DestinationCreate) -> Destination:
        return self._one(Destination, "POST", "/api/v1/destinations", body=wanted)

    def replace_destination(self, destination_id: int, wanted: DestinationReplace) -> Destination:
        """What is secret is given anew, or kept (`secret_kept` and the like)."""
        return self._one(Destination, "PUT", f"/api/v1/destinations/{destination_id}", body=wanted)

    def delete_destination(self, destination_id: int) -> None:
        self._request("DELETE", f"/api/v1/destinations/{destination_id}")

    def test_destination(self, destination_id: int) -> Delivery:
        """Send a signed test alert now, once; the answer says what came of it."""
        path = f"/api/v1/destinations/{destination_id}/test"
        return self._one(Delivery, "POST", path, timeout_s=TRY_TIMEOUT_S)

    def preview_destination(self, wanted: DestinationPreview) -> DestinationPreviewed:
        """What it would be told with these templates; nothing is sent."""
        return self._one(DestinationPreviewed, "POST", "/api/v1/destinations:preview", body=wanted)

    def replay_dead_letters(self, destination_id: int, ids: list[int] | None = None) -> DeadLettersReplayed:
        """Send what was given up once more; ids: of these deliveries, None for all."""
        path = f"/api/v1/destinations/{destination_id}/dead-letters:replay"
        return self._one(DeadLettersReplayed, "POST", path, body=DeadLettersReplay(ids=ids))

    def deliveries(
        self, alert_id: int | None = None, *, destination_id: int | None = None, state: str | None = None
    ) -> list[Delivery]:
        """Newest first; the dead letters are those with state `given_up`."""
        params = {"alert_id": alert_id, "destination_id": destination_id, "state": state}
        return list(self.every(Delivery, "/api/v1/deliveries", **params))

    def latest_deliveries(self, limit: int) -> list[Delivery]:
        """The newest, at most `limit`."""
        return self._page(Delivery, "/api/v1/deliveries", limit=limit).items

    def silences(self) -> list[Silence]:
        return list(self.every(Silence, "/api/v1/silences"))

    def create_silence(self, wanted: SilenceCreate) -> Silence:
        return self._one(Silence, "POST", "/api/v1/silences", body=wanted)

    def silence_preview(self, wanted: Silenced) -> list[Alert]:
        """The open alerts that it would hold back."""
        answer = self._request("POST", "/api/v1/silences:preview", body=wanted)
        return Page[Alert].model_validate_json(answer.content).items

    def end_silence(self, silence_id: int) -> None:
        self._request("DELETE", f"/api/v1/silences/{silence_id}")

    def inhibit_rules(self) -> list[InhibitRule]:
        return list(self.every(InhibitRule, "/api/v1/inhibit-rules"))

    def create_inhibit_rule(self, wanted: InhibitRuleCreate) -> InhibitRule:
        return self._one(InhibitRule, "POST", "/api/v1/inhibit-rules", body=wanted)

    def update_inhibit_rule(self, rule_id: int, wanted: InhibitRuleCreate) -> InhibitRule:
        return self._one(InhibitRule, "PUT", f"/api/v1/inhibit-rules/{rule_id}", body=wanted)

    def delete_inhibit_rule(self, rule_id: int) -> None:
        self._request("DELETE", f"/api/v1/inhibit-rules/{rule_id}")

    def apply_alerting(self, wanted: AlertingSet | Mapping[str, Any]) -> AlertingChanges:
        """Make alerting as files declare it, whole or not at all; with `dry_run` only say what that would change."""
        return self._one(AlertingChanges, "PUT", "/api/v1/alerting", body=wanted, timeout_s=APPLY_TIMEOUT_S)

    # Incidents: the alerts of one cause, and who looks after what.

    def incidents(self, **params: Any) -> list[Incident]:
        """Newest first; params: state, pool, open, alert_id."""
        return list(self.every(Incident, "/api/v1/incidents", **params))

    def latest_incidents(self, limit: int, **params: Any) -> list[Incident]:
        """The newest, at most `limit`."""
        return self._page(Incident, "/api/v1/incidents", limit=limit, **params).items

    def incident(self, incident_id: int) -> IncidentDetail:
        return self._one(IncidentDetail, "GET", f"/api/v1/incidents/{incident_id}")

    def post_mortem(self, incident_id: int) -> str:
        """Markdown."""
        return self._request("GET", f"/api/v1/incidents/{incident_id}/post-mortem").text

    def acknowledge_incident(self, incident_id: int, comment: str = "") -> Incident:
        wanted = IncidentAcknowledge(comment=comment)
        return self._one(Incident, "POST", f"/api/v1/incidents/{incident_id}/acknowledge", body=wanted)

    def add_incident_note(self, incident_id: int, text: str) -> IncidentNote:
        wanted = IncidentNoteCreate(text=text)
        return self._one(IncidentNote, "POST", f"/api/v1/incidents/{incident_id}/notes", body=wanted)

    def merge_incidents(self, incident_id: int, other: int) -> Incident:
        """The first takes in the other."""
        wanted = IncidentMerge(incident_id=other)
        return self._one(Incident, "POST", f"/api/v1/incidents/{incident_id}/merge", body=wanted)

    def split_incident(self, incident_id: int, wanted: IncidentSplit) -> Incident:
        """The incident that has the alerts then."""
        return self._one(Incident, "POST", f"/api/v1/incidents/{incident_id}/split", body=wanted)

    def confirm_cause(self, incident_id: int, cause: str, comment: str = "") -> Incident:
        """`cause`: one of `CauseKind`; unknown: none of those that were named."""
        wanted = {"cause": cause, "comment": comment}
        return self._one(Incident, "POST", f"/api/v1/incidents/{incident_id}/cause", body=wanted)

    def resolve_incident(self, incident_id: int, reason: str) -> Incident:
        wanted = IncidentResolve(reason=reason)
        return self._one(Incident, "POST", f"/api/v1/incidents/{incident_id}/resolve", body=wanted)

    def routes(self) -> list[Route]:
        return list(self.every(Route, "/api/v1/routes"))

    def create_route(self, wanted: RouteCreate) -> Route:
        return self._one(Route, "POST", "/api/v1/routes", body=wanted)

    def update_route(self, route_id: int, wanted: RouteCreate) -> Route:
        return self._one(Route, "PUT", f"/api/v1/routes/{route_id}", body=wanted)

    def delete_route(self, route_id: int) -> None:
        self._request("DELETE", f"/api/v1/routes/{route_id}")

    # The ledger is only read.

    def ledger(self, *, limit: int = 100, kind: str | None = None, subject: str | None = None) -> list[LedgerEntry]:
        """Newest first, at most `limit`."""
        return self.ledger_page(limit=limit, kind=kind, subject=subject).items

    def ledger_page(self, **params: Any) -> Page[LedgerEntry]:
        """Newest first; params: limit, cursor, kind, actor, subject, text, start, end."""
        return self._page(LedgerEntry, "/api/v1/ledger", **params)

    def every_ledger_entry(self, **params: Any) -> Iterator[LedgerEntry]:
        """All that match, newest first, page after page; params as of `ledger_page`."""
        return self.every(LedgerEntry, "/api/v1/ledger", limit=500, **params)

    def ledger_check(self) -> LedgerCheck:
        """The head, and whether the newest entries are as they were written."""
        return self._one(LedgerCheck, "GET", "/api/v1/ledger/check")

    def ledger_entry(self, number: int) -> LedgerEntry:
        """Raises `NotFound`, also for one that has been archived."""
        # A page begins below its cursor: the entry is the first of the one that begins below the next.
        found = self.ledger_page(limit=1, cursor=number + 1).items
        if not found or found[0].id != number:
            raise NotFound(f"no ledger entry {number}")
        return found[0]


def _keyed(key: str | None) -> dict[str, str]:
    """The header of what is done once."""
    return {} if key is None else {"Idempotency-Key": key}
