"""Third act: from the good configuration a study finds a better one, which goes out as a judged canary."""

from collections.abc import Sequence

from agents.demo.figures import Span
from agents.demo.scene import Scene, Step, StepFailed, headline
from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import ENDED, RolloutPhase, Verdict
from controlplane.contract.bodies.studies import Study, StudyState, StudyVerdict
from controlplane.contract.clock import utc_now

WINNER_PROMOTED = "The winner goes out as a canary, is judged, and is promoted"


class Improvement:
    """Ends with the study's winner in production, and the span "after"."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._study_id = 0
        self._rollout_id = 0

    @property
    def steps(self) -> list[Step]:
        return [
            Step(
                "A study finds better than the old default",
                self.study_runs,
                "/studies",
                ("service", "trial-1-engine", "trial-1-agent"),
            ),
            Step(
                WINNER_PROMOTED,
                self.rollout_promoted,
                "/rollouts",
                ("service", "node-1-agent", "node-1-engine"),
            ),
            Step("Latency with the winner is measured", self.after, "/explore", ("service", "node-1-engine")),
            Step("The alert is resolved, and on-call was told", self.alert_resolved, "/alerts"),
        ]

    def study_runs(self) -> None:
        scene = self._scene

        def look() -> tuple[Study | None, str]:
            number = study_of(scene.client.alert(scene.alert_id).remedies)
            if number is None:
                return None, "no study started yet"
            study = scene.client.study(number)
            if study.state in {StudyState.FAILED, StudyState.CANCELLED}:
                raise StepFailed("a study with a result", f"study {study.id} {study.state}: {study.error}")
            if study.result is None:
                return None, f"study {study.id} {study.state}: {study.trials_done} trials; {study.progress}"
            return study, study.result.summary

        study = scene.until("the study finishes", scene.plan.study_limit_s, look)
        assert study.result is not None
        good = scene.client.config(scene.good_revision).knobs.knobs()
        if study.result.default != good:
            raise StepFailed(f"a study whose default is revision {scene.good_revision}", f"{study.result.default}")
        if study.result.verdict is not StudyVerdict.BETTER or study.rollout_id is None:
            raise StepFailed("a configuration that is better than the old default", study.result.summary)
        self._study_id, self._rollout_id = study.id, study.rollout_id

    def rollout_promoted(self) -> None:
        scene = self._scene

        def look() -> tuple[bool | None, str]:
            rollout = scene.client.rollout(self._rollout_id)
            if rollout.phase in ENDED and rollout.phase is not RolloutPhase.PROMOTED:
                raise StepFailed("the winner is promoted", f"rollout {rollout.id} {rollout.phase}: {rollout.message}")
            verdict = f", verdict {rollout.verdict}" if rollout.verdict else ""
            news = f"rollout {rollout.id} {rollout.phase}{verdict}: {rollout.message}"
            return (True if rollout.phase is RolloutPhase.PROMOTED else None), news

        scene.until("the winner is promoted", scene.plan.rollout_limit_s, look)
        rollout = scene.client.rollout(self._rollout_id)
        if rollout.verdict not in {Verdict.BETTER, Verdict.NOT_WORSE} or not rollout.judging_since:
            raise StepFailed("a judged verdict", f"rollout {rollout.id} was promoted {rollout.verdict}")
        scene.changed_at = utc_now()

    def after(self) -> None:
        scene, plan = self._scene, self._scene.plan

        def look() -> tuple[Span | None, str]:
            span = scene.since_change("after")
            return (
                span if span.requests >= plan.after_requests else None
            ), f"{span.requests} requests, {headline(span)}"

        scene.keep(scene.until(f"{plan.after_requests} requests with the winner", 4 * plan.after_s, look))

    def alert_resolved(self) -> None:
        scene = self._scene

        def look() -> tuple[bool | None, str]:
            alert = scene.client.alert(scene.alert_id)
            told = scene.receiver.find(alert.fingerprint, AlertState.RESOLVED.value)
            done = alert.state is AlertState.RESOLVED and told is not None
            news = f"alert {alert.id} {alert.state}, receiver {'told' if told else 'not yet told'}"
            return (True if done else None), news

        scene.until("the alert resolves and the receiver is told", scene.plan.resolve_limit_s, look)


def study_of(steps: Sequence[RemedyStep]) -> int | None:
    """The study that serves an alert: its own, or where two alerts came at once the other's, which its remedy names."""
    serving = (RemedyState.STARTED, RemedyState.DECLINED)
    found = [step.study_id for step in steps if step.action is RemedyAction.STUDY and step.state in serving]
    return next((number for number in reversed(found) if number is not None), None)
