"""Second act: a bad configuration reaches production; the alert names it, and it is taken back, judged."""

from collections.abc import Mapping
from typing import Any

from agents.demo.beginning import seconds_since
from agents.demo.figures import Span
from agents.demo.plan import POOL
from agents.demo.scene import Scene, Step, StepFailed, headline
from controlplane.contract.bodies.alerts import Alert, AlertState
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase
from controlplane.contract.clock import utc_now

FEWEST_REQUESTS = 20
ALERT_NAMES = "The alert names the change"


class Breakage:
    """Ends with the good revision in production again, and the span "during"."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._rollout_id = 0

    @property
    def steps(self) -> list[Step]:
        logs = ("service", "node-1-agent", "node-1-engine")
        return [
            Step("A bad configuration reaches production", self.bad_change, "/rollouts", logs),
            Step("p99 regresses", self.regression, "/explore", ("service", "traffic", "node-1-engine")),
            Step(ALERT_NAMES, self.alert_names_the_change, "/alerts"),
            Step("Its webhook arrives, signed", self.webhook_arrives, "/alerts"),
            Step("The change is taken back, judged", self.taken_back, "/rollouts", logs),
            Step("p99 is back within two minutes of the alert", self.recovery, "/explore", logs),
        ]

    def bad_change(self) -> None:
        scene, plan = self._scene, self._scene.plan
        wanted = RevisionCreate(knobs=plan.bad, base=scene.good_revision, note=plan.bad_reason)
        revision = scene.client.create_config(wanted)
        scene.bad_revision = revision.number
        rollout = scene.client.create_rollout(
            RolloutCreate(pool=POOL, revision=revision.number, emergency=True, reason=plan.bad_reason)
        )

        def look() -> tuple[bool | None, str]:
            seen = scene.client.rollout(rollout.id)
            phase, running = seen.phase, scene.running(revision.number)
            if phase in ENDED and phase is not RolloutPhase.PROMOTED:
                raise StepFailed("the bad revision runs on every serving node", f"rollout {seen.id} {seen.message}")
            there = phase is RolloutPhase.PROMOTED and len(running) == len(plan.engine_ports)
            return (True if there else None), f"rollout {rollout.id} {phase}; revision {revision.number} on {running}"

        scene.until("the bad revision runs on every serving node", plan.start_limit_s, look)
        scene.changed_at = utc_now()

    def regression(self) -> None:
        scene = self._scene
        before = scene.span("before")

        def look() -> tuple[Span | None, str]:
            span = scene.since_change("during")
            ratio = span.p99("ttft") / before.p99("ttft")
            worse = span.requests >= FEWEST_REQUESTS and ratio >= scene.plan.regressed
            return (span if worse else None), headline(span) + (f": {ratio:.1f} x before" if span.requests else "")

        span = scene.until(f"ttft p99 of {scene.plan.regressed:g} x before", scene.plan.alert_limit_s, look)
        scene.keep(span, scene.client.config(scene.bad_revision).knobs.knobs())

    def alert_names_the_change(self) -> None:
        """A new alert, or an update of one that was open already: its first cause is the bad revision."""
        scene = self._scene

        def look() -> tuple[Alert | None, str]:
            found = scene.open_alerts()
            naming = [alert for alert in found if alert.diagnosis and self._named(alert.diagnosis.causes)]
            shown = naming or found
            failing = [name for name, task in scene.client.ready_report().background.items() if task.failing]
            gathers = f"evidence gathers; failing, see the log: {', '.join(failing)}" if failing else "evidence gathers"
            news = shown[0].diagnosis.summary if shown and shown[0].diagnosis else gathers
            return (naming[0] if naming else None), news

        alert = scene.until(
            f"an alert whose likeliest cause is revision {scene.bad_revision}", scene.plan.alert_limit_s, look
        )
        scene.alert_id, scene.told_at = alert.id, utc_now()

    def _named(self, causes: list[dict[str, Any]]) -> bool:
        first: Mapping[str, Any] = causes[0] if causes else {}
        return first.get("cause") == "config_change" and first.get("revision") == self._scene.bad_revision

    def webhook_arrives(self) -> None:
        scene = self._scene
        fingerprint = scene.client.alert(scene.alert_id).fingerprint

        def look() -> tuple[bool | None, str]:
            told = [
                delivery
                for delivery in scene.receiver.received
                if fingerprint in delivery.fingerprints
                and delivery.status == AlertState.FIRING.value
                and self._named((delivery.body["tailwright"]["diagnosis"] or {}).get("causes", []))
            ]
            news = f"{len(scene.receiver.received)} accepted, {scene.receiver.refused} refused"
            return (True if told else None), news

        scene.until("a signed webhook that names the revision", scene.plan.webhook_limit_s, look)

    def taken_back(self) -> None:
        scene = self._scene

        def begun() -> tuple[RemedyStep | None, str]:
            steps = [step for alert in scene.open_alerts() for step in alert.remedies]
            taking = [step for step in steps if self._takes_back(step)]
            return (taking[0] if taking else None), steps[-1].why if steps else "no remedy chosen yet"

        step = scene.until(
            f"revision {scene.bad_revision} is being taken back by itself", scene.plan.webhook_limit_s, begun
        )
        assert step.rollout_id is not None
        self._rollout_id = step.rollout_id

        def ended() -> tuple[bool | None, str]:
            rollout = scene.client.rollout(self._rollout_id)
            if rollout.phase in ENDED and rollout.phase is not RolloutPhase.PROMOTED:
                raise StepFailed("the take-back is judged and promoted", f"rollout {rollout.id}: {rollout.message}")
            verdict = f", verdict {rollout.verdict}" if rollout.verdict else ""
            done = rollout.phase is RolloutPhase.PROMOTED and rollout.judging_since is not None
            return (True if done else None), f"rollout {rollout.id} {rollout.phase}{verdict}: {rollout.message}"

        scene.until("the take-back is judged and promoted", scene.plan.back_limit_s, ended)
        scene.changed_at = utc_now()

    def _takes_back(self, step: RemedyStep) -> bool:
        return (
            step.action is RemedyAction.ROLL_BACK
            and step.state is RemedyState.STARTED
            and step.revision == self._scene.bad_revision
            and step.back_to == self._scene.good_revision
        )

    def recovery(self) -> None:
        """In what is left of two minutes since the alert. Requests that had to wait for the bad budget end for some
        seconds yet, so p99 is that of the newest seconds, with requests enough to speak of one."""
        scene = self._scene
        assert scene.told_at is not None
        before, during = scene.span("before").p99("ttft"), scene.span("during").p99("ttft")

        def look() -> tuple[Span | None, str]:
            span = scene.newest("back", scene.plan.back_s)
            gone = (during - span.p99("ttft")) / (during - before)
            good = span.requests >= scene.plan.back_requests and gone >= scene.plan.recovered
            told = f" of {span.requests} requests: {100 * gone:.0f} % of the rise gone" if span.requests else ""
            return (span if good else None), headline(span) + told

        left_s = scene.plan.back_limit_s - seconds_since(scene.told_at)
        scene.keep(scene.until(f"{100 * scene.plan.recovered:.0f} % of the rise of ttft p99 gone", left_s, look))
        scene.back_at = utc_now()
