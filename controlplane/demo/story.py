"""The story, step by step. A step ends when the control plane's API shows that it truly happened, or the story fails.

Waiting is polling the API within a limit; nothing is assumed to have happened because time has passed.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import httpx

from controlplane.client import Client
from controlplane.contract.alerts import Alert, AlertRuleCreate, AlertState, DestinationCreate, Diagnosis, Remedy
from controlplane.contract.clock import utc_now
from controlplane.contract.configs import RevisionCreate
from controlplane.contract.errors import TrimtabError
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.nodes import NodeView
from controlplane.contract.rollouts import ENDED, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.studies import StudyState, StudyVerdict
from controlplane.contract.telemetry import QuantileSeries
from controlplane.demo.figures import Span, read_span
from controlplane.demo.fleet import Fleet
from controlplane.demo.plan import POOL, Plan
from controlplane.demo.receiver import Receiver
from controlplane.demo.view import View

T = TypeVar("T")
POLL_S = 0.5


class StepFailed(Exception):
    """A step did not happen. The message says what was seen instead."""


class Story:
    """Run the steps in order with `run`; afterwards `spans` holds before, during and after."""

    def __init__(self, plan: Plan, fleet: Fleet, receiver: Receiver, view: View) -> None:
        self.plan = plan
        self.fleet = fleet
        self.receiver = receiver
        self.view = view
        self.spans: list[Span] = []
        self.knobs: dict[str, str] = {}
        self._client: Client | None = None
        self._changed_at: datetime | None = None
        self._bad_revision = 0
        self._alert_id = 0
        self._study_id = 0
        self._rollout_id = 0

    @property
    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("Control plane answers, durable", self.service_starts),
            ("Two serving nodes and a trial node enrol", self.nodes_enrol),
            ("Traffic flows, every part of its latency is seen", self.traffic_flows),
            ("A baseline is measured", self.baseline),
            ("A bad configuration reaches production", self.bad_change),
            ("p99 regresses", self.regression),
            ("The alert fires and names the stage", self.alert_fires),
            ("Its webhook arrives, signed", self.webhook_arrives),
            ("A study finds a better configuration", self.study_runs),
            ("The winner goes out as a canary, is judged, and is promoted", self.rollout_promoted),
            ("p99 returns", self.recovery),
            ("The alert resolves, and on-call is told", self.alert_resolves),
        ]

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self.fleet.client()
        return self._client

    def run(self) -> None:
        """Raises `StepFailed` at the first step that did not happen."""
        for place, (_, step) in enumerate(self.steps):
            self.view.begin(place)
            try:
                step()
            except BaseException:
                self.view.end(failed=True)
                raise
            self.view.end()

    def _until(self, what: str, limit_s: float, look: Callable[[], tuple[T | None, str]]) -> T:
        """Poll `look` until it returns a value; its text is the news shown meanwhile."""
        deadline = time.monotonic() + limit_s
        news = ""
        while time.monotonic() < deadline:
            self.fleet.processes.check()
            try:
                value, news = look()
            except (httpx.TransportError, TrimtabError) as error:
                value, news = None, f"{type(error).__name__}: {error}"
            self.view.say(news)
            if value is not None:
                return value
            time.sleep(POLL_S)
        raise StepFailed(f"{what}: not within {limit_s:.0f} s; last seen: {news}")

    # -- the steps -----------------------------------------------------------------------------------------------

    def service_starts(self) -> None:
        self.fleet.start_service()

        def look() -> tuple[bool | None, str]:
            answer = httpx.get(f"{self.fleet.url}/readyz", timeout=2)
            return (True if answer.status_code == 200 else None), f"/readyz answers {answer.status_code}"

        self._until("the control plane gets ready", self.plan.start_limit_s, look)
        token = self.fleet.token("dashboard-token")
        self.view.announce(f"Dashboard: {self.fleet.url}/login?token={token}")

    def nodes_enrol(self) -> None:
        self.fleet.start_nodes()
        wanted = len(self.plan.engine_ports) + 1

        def look() -> tuple[bool | None, str]:
            ready = [node.node for node in self.client.nodes() if _serves(node)]
            starting = self.fleet.engines.news()
            news = f"{len(ready)} of {wanted} nodes healthy: {', '.join(ready)}"
            return (True if len(ready) == wanted else None), f"{news}; {starting}" if starting else news

        self._until("every node enrols and reports its effective configuration", self.plan.start_limit_s, look)
        self.client.create_destination(
            DestinationCreate(name="on-call", url=self.receiver.url, secret=self.fleet.webhook_secret)
        )
        rule = next(rule for rule in self.client.alert_rules() if rule.condition.kind == "regression")
        remedied = AlertRuleCreate.model_validate(
            {**rule.model_dump(include=set(AlertRuleCreate.model_fields)), "remedy": Remedy(study=self.plan.study())}
        )
        self.client.update_alert_rule(rule.id, remedied)

    def traffic_flows(self) -> None:
        self.fleet.start_traffic()

        def look() -> tuple[bool | None, str]:
            nodes = {s.labels["node"]: s.count for s in self._quantiles("e2e", window="1m", by=["node"])}
            shares = self.client.scalars("unaccounted_share", window="1m", pool=POOL).series
            enough = len(nodes) == len(self.plan.engine_ports) and min(nodes.values()) >= 10
            share = f", unaccounted {100 * shares[0].value:.2f} %" if shares else ""
            return (True if enough and shares else None), f"requests seen: {nodes}{share}"

        self._until("both nodes report finished requests", self.plan.start_limit_s, look)

    def baseline(self) -> None:
        began = utc_now()

        def look() -> tuple[Span | None, str]:
            span = read_span(self.client, "before", began, utc_now())
            seen = (utc_now() - began).total_seconds()
            done = seen >= self.plan.baseline_s and span.requests >= 100
            return (span if done else None), f"{seen:.0f} s, {span.requests} requests, {_headline(span)}"

        span = self._until("a baseline of enough requests", 3 * self.plan.baseline_s, look)
        self._keep(span)
        self.plan = self.plan.for_steps_of(span.p50("itl"))

    def bad_change(self) -> None:
        base = self._production_revision()
        revision = self.client.create_config(RevisionCreate(knobs=self.plan.bad, base=base, note=self.plan.bad_reason))
        rollout = self.client.create_rollout(
            RolloutCreate(pool=POOL, revision=revision.number, emergency=True, reason=self.plan.bad_reason)
        )
        self._bad_revision = revision.number

        def look() -> tuple[bool | None, str]:
            phase = self.client.rollout(rollout.id).phase
            running = [n.node for n in self._serving() if n.effective and n.effective.revision == revision.number]
            there = phase is RolloutPhase.PROMOTED and len(running) == len(self.plan.engine_ports)
            return (True if there else None), f"rollout {rollout.id} {phase}; revision {revision.number} on {running}"

        self._until("the bad revision runs on every serving node", 60, look)
        self._changed_at = utc_now()

    def regression(self) -> None:
        before = self.spans[0]

        def look() -> tuple[Span | None, str]:
            span = self._since_change("during")
            ratio = span.p99("ttft") / before.p99("ttft")
            worse = span.requests >= 20 and ratio >= self.plan.regressed
            return (span if worse else None), f"{_headline(span)}: {ratio:.1f} x before"

        self._until("ttft p99 rises", self.plan.alert_limit_s, look)

    def alert_fires(self) -> None:
        """Several alerts may come of one change: follow the one that names it, and the study they started."""

        def look() -> tuple[tuple[Alert, int] | None, str]:
            fired = [alert for alert in self.client.alerts() if self._fired_since_change(alert)]
            named = [alert for alert in fired if alert.diagnosis and _names_the_change(alert.diagnosis)]
            studies = [alert.study_id for alert in fired if alert.study_id is not None]
            news = [alert.diagnosis.summary for alert in named or fired if alert.diagnosis]
            found = (named[-1], studies[-1]) if named and studies else None
            return found, news[-1] if news else f"evidence gathers{self._earlier_alerts()}"

        alert, self._study_id = self._until(
            "an alert fires whose diagnosis names the configuration change", self.plan.alert_limit_s, look
        )
        self._alert_id = alert.id

    def _earlier_alerts(self) -> str:
        """What fired with nothing changed yet: on a machine too busy for steady latency that spoils the story."""
        assert self._changed_at is not None
        fired = [alert for alert in self.client.alerts() if alert.fired_at is not None]
        early = sum(1 for alert in fired if alert.fired_at is not None and alert.fired_at <= self._changed_at)
        return f"; {early} fired before the change already: is this machine busy with something else?" if early else ""

    def _fired_since_change(self, alert: Alert) -> bool:
        assert self._changed_at is not None
        return alert.labels.get("pool") == POOL and alert.fired_at is not None and alert.fired_at > self._changed_at

    def webhook_arrives(self) -> None:
        fingerprint = self.client.alert(self._alert_id).fingerprint

        def look() -> tuple[bool | None, str]:
            arrived = self.receiver.find(fingerprint, "firing")
            return (
                True if arrived else None
            ), f"{len(self.receiver.received)} accepted, {self.receiver.refused} refused"

        self._until("the signed webhook arrives", 60, look)

    def study_runs(self) -> None:
        def look() -> tuple[bool | None, str]:
            study = self.client.study(self._study_id)
            if study.state in {StudyState.FAILED, StudyState.CANCELLED}:
                raise StepFailed(f"study {study.id} {study.state}: {study.error}")
            if study.result is None:
                return None, f"{study.trials_done} trials; {study.progress}"
            if study.result.verdict is not StudyVerdict.BETTER or study.rollout_id is None:
                raise StepFailed(f"study {study.id}: {study.result.summary}")
            self._rollout_id = study.rollout_id
            return True, study.result.summary

        self._until("the study finishes", self.plan.study_limit_s, look)
        # The canary may run by now: the span is named after the revision that was bad, not after what a node runs.
        self._keep(self._since_change("during"), self.client.config(self._bad_revision).knobs.knobs())

    def rollout_promoted(self) -> None:
        phases: list[str] = []

        def look() -> tuple[bool | None, str]:
            rollout = self.client.rollout(self._rollout_id)
            if rollout.phase.value not in phases:
                phases.append(rollout.phase.value)
            if rollout.phase in ENDED and rollout.phase is not RolloutPhase.PROMOTED:
                raise StepFailed(f"rollout {rollout.id} {rollout.phase}: {rollout.message}")
            verdict = f", verdict {rollout.verdict}" if rollout.verdict else ""
            return (
                True if rollout.phase is RolloutPhase.PROMOTED else None
            ), f"rollout {rollout.id} {rollout.phase}{verdict}: {rollout.message}"

        self._until("the winner is promoted", self.plan.rollout_limit_s, look)
        rollout = self.client.rollout(self._rollout_id)
        if rollout.verdict not in {Verdict.BETTER, Verdict.NOT_WORSE} or not rollout.judging_since:
            raise StepFailed(f"rollout {rollout.id} was promoted without a judged verdict: {rollout.verdict}")
        self._changed_at = utc_now()

    def recovery(self) -> None:
        before, during = (span.p99("ttft") for span in self.spans)

        def look() -> tuple[Span | None, str]:
            span = self._since_change("after")
            gone = (during - span.p99("ttft")) / (during - before)
            seen = (span.end - span.start).total_seconds()
            good = seen >= self.plan.after_s and span.requests >= 50 and gone >= self.plan.recovered
            ratio = span.p99("ttft") / before
            news = f"{seen:.0f} s, {_headline(span)}: {ratio:.2f} x before, {100 * gone:.0f} % of the rise gone"
            return (span if good else None), news

        self._keep(self._until("ttft p99 returns", 4 * self.plan.after_s, look))

    def alert_resolves(self) -> None:
        def look() -> tuple[bool | None, str]:
            alert = self.client.alert(self._alert_id)
            told = self.receiver.find(alert.fingerprint, "resolved")
            done = alert.state is AlertState.RESOLVED and told is not None
            return (
                True if done else None
            ), f"alert {alert.id} {alert.state}, receiver {'told' if told else 'not yet told'}"

        self._until("the alert resolves", self.plan.resolve_limit_s, look)

    # -- reading -------------------------------------------------------------------------------------------------

    def _quantiles(self, metric: str, window: str, by: list[str]) -> list[QuantileSeries]:
        return self.client.quantiles(metric, window=window, by=by, pool=POOL).series

    def _serving(self) -> list[NodeView]:
        return [node for node in self.client.nodes() if node.pool == POOL]

    def _production_revision(self) -> int:
        """The revision the pool runs, as its first node's desired or effective one."""
        for node in self._serving():
            number = node.desired_revision or (node.effective.revision if node.effective else 0)
            if number:
                return number
        raise StepFailed("the pool has no revision in production")

    def _since_change(self, name: str) -> Span:
        """From the first whole window after the change until now; empty until that window has begun."""
        assert self._changed_at is not None
        start = self._changed_at + timedelta(seconds=WINDOW_S)
        return read_span(self.client, name, start, max(utc_now(), start + timedelta(seconds=WINDOW_S)))

    def _keep(self, span: Span, knobs: dict[str, Any] | None = None) -> None:
        """Remember a span for the table, with its configuration: what the first node runs unless `knobs` say."""
        self.spans.append(span)
        if knobs is None:
            effective = self._serving()[0].effective
            knobs = effective.knobs if effective else {}
        names = ("max_num_batched_tokens", "prefill_chunk_size", "num_speculative_tokens", "quantization")
        self.knobs[span.name] = ", ".join(str(knobs.get(name)) for name in names)


def _names_the_change(diagnosis: Diagnosis) -> bool:
    return diagnosis.stage is not None and any(cause.get("cause") == "config_change" for cause in diagnosis.causes)


def _serves(node: NodeView) -> bool:
    return node.connected and node.healthy and node.effective is not None


def _headline(span: Span) -> str:
    return f"ttft p99 {1e3 * span.p99('ttft'):.0f} ms"
