"""Two arms of others, judged as a canary of ours is: the judge is replayed from the canary's start at each question.

Guarantee: nothing is kept between questions. The judge is fed every telemetry window since the start in order, and
looks at its evidence at fixed moments counted from there, so that an answer depends on the windows alone, not on who
asked before, how often, or which replica answers. Its evidence is an e-process, a function of the windows so far: the
probability that a canary that is no worse is *ever* called worse is at most alpha, over all moments at which anybody
might ask (Ville's inequality). What was called worse at one look stays so. A report that comes later than the lag
changes windows that were answered for already; so does a question with another start, which is another question.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.verdicts import Outcome, VerdictAnswer, VerdictAsked
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_S
from controlplane.rollouts.checks import check_judged_by
from controlplane.rollouts.judging.arms import Arm, every_tick, window_ceiling, window_floor
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import HISTORY_S, plan_of
from controlplane.rollouts.judging.served import Outcomes
from controlplane.rollouts.verdicts.asked_arms import LONGEST_S, Arms, arms_of, started_at
from controlplane.rollouts.verdicts.verdict_answer import answer, outcome_of, reasons
from controlplane.telemetry import Span, TelemetryReader

LAG_S = 10.0
"""How far behind now windows are judged, so that late reports count."""
LOOK_TICKS = 6
"""Windows between two looks."""
NOBODY = Arm((), None)
FIRST_MOMENT, FURTHEST = datetime(2000, 1, 1, tzinfo=UTC), timedelta(days=366)


@dataclass(frozen=True)
class _Case:
    """What is read. past_control and past_canary: the arms in the time before."""

    control: Arm
    canary: Arm
    judged: Span
    past: Span
    past_control: Arm
    past_canary: Arm


def _check_moments(asked: VerdictAsked, now: datetime) -> None:
    """Raises `BadRequest` for a moment of which no telemetry can be, and beyond which no calendar may reach."""
    for name in ("start", "end", "control_start", "control_end"):
        moment: datetime | None = getattr(asked, name)
        if moment is not None and not FIRST_MOMENT <= moment <= now + FURTHEST:
            raise BadRequest(f"{name}: wants a moment from 2000 on, at most a year from now", field=name)


def verdict_on(telemetry: TelemetryReader, asked: VerdictAsked, now: datetime) -> VerdictAnswer:
    """Raises `BadRequest` for what cannot be asked."""
    _check_moments(asked, now)
    spec = _spec(asked)
    began = started_at(telemetry, asked, now)
    if began is None:
        return answer(Outcome.INCONCLUSIVE, {}, ["the canary has reported nothing yet"], final=False)
    first = window_ceiling(began + timedelta(seconds=asked.settle_s))
    newest = min(now - timedelta(seconds=LAG_S), telemetry.latest() or now)
    is_over = asked.end is not None and asked.end <= newest
    end = window_floor(min(newest, asked.end or newest))
    if (end - first).total_seconds() > LONGEST_S:
        raise BadRequest(
            f"end: at most {LONGEST_S / 3600.0:g} h are judged; give an end, or a later start", field="end"
        )
    looks = max(math.floor((end - first).total_seconds() / (LOOK_TICKS * WINDOW_S)), 0)
    if not is_over:
        end = first + timedelta(seconds=looks * LOOK_TICKS * WINDOW_S)
    if end <= first:
        return answer(Outcome.INCONCLUSIVE, {}, ["nothing has been compared yet: the canary settles"], final=is_over)
    case = _case(telemetry, asked, began, Span(first, end))
    if isinstance(case, str):
        return answer(Outcome.INCONCLUSIVE, {}, [case], final=is_over)
    judge = _replayed(telemetry, case, spec, concurrent=asked.control_start is None)
    outcome, says = outcome_of(judge.verdict()), []
    if outcome is Outcome.PASS and case.judged.seconds < asked.min_judge_s:
        outcome = Outcome.INCONCLUSIVE
        says = [f"good so far; it passes after {asked.min_judge_s:g} s"]
    evidence = judge.evidence() | {
        "judged_from": first.isoformat(),
        "judged_until": end.isoformat(),
        "judged_s": case.judged.seconds,
    }
    # Once worse, always worse: more windows cannot unsay it.
    said = says or _words(outcome, case.judged.seconds)
    return answer(outcome, evidence, [*said, *reasons(evidence)], final=is_over or outcome is Outcome.FAIL)


def _words(outcome: Outcome, judged_s: float) -> list[str]:
    found = {
        Outcome.PASS: "the canary is not worse than the control",
        Outcome.FAIL: "the canary is worse than the control",
        Outcome.INCONCLUSIVE: "not enough evidence",
    }
    return [f"{found[outcome]}, after {judged_s:.0f} s"]


def _spec(asked: VerdictAsked) -> RolloutCreate:
    """What a rollout would be judged by."""
    for name, first, last in (("control_end", asked.control_start, asked.control_end), ("end", asked.start, asked.end)):
        if first is not None and last is not None and last <= first:
            raise BadRequest(f"{name}: must be after the start", field=name)
    if (asked.control_start is None) is not (asked.control_end is None):
        raise BadRequest("control_end: give both control_start and control_end, or neither", field="control_end")
    said = {name: getattr(asked, name) for name in ("metrics", "levels", "limits", "profile", "tolerance", "alpha")}
    spec = RolloutCreate(pool="", revision=0, **said)
    check_judged_by(spec)
    return spec


def _case(telemetry: TelemetryReader, asked: VerdictAsked, began: datetime, judged: Span) -> _Case | str:
    """What is read; or why there is nothing to compare yet."""
    before = window_floor(began)
    past = Span(before - timedelta(seconds=HISTORY_S), before)
    if asked.control_start is not None and asked.control_end is not None:
        past = Span(window_ceiling(asked.control_start), window_floor(asked.control_end))
        if not 0.0 < past.seconds <= LONGEST_S:
            raise BadRequest(f"control_end: at most {LONGEST_S / 3600.0:g} h are compared with", field="control_end")
        if past.end > judged.start:
            raise BadRequest("control_end: the time before must end before the canary's start", field="control_end")
        arms = Arms(arms_of(telemetry, asked, past).control, arms_of(telemetry, asked, judged).canary)
    else:
        arms = arms_of(telemetry, asked, judged)
    for name, arm in (("control", arms.control), ("canary", arms.canary)):
        if not arm.nodes:
            return f"the {name} has reported nothing yet"
    if asked.control_start is not None:
        return _Case(NOBODY, arms.canary, judged, past, arms.control, NOBODY)
    # Before the start nodes ran what they ran; where both arms are on the same nodes, the canary has no time before.
    past_control, past_canary = (Arm(arm.nodes, None, where=arm.where) for arm in (arms.control, arms.canary))
    if arms.shared:
        past_control, past_canary = arms.control, NOBODY
    return _Case(arms.control, arms.canary, judged, past, past_control, past_canary)


def _replayed(telemetry: TelemetryReader, case: _Case, spec: RolloutCreate, *, concurrent: bool) -> Judge:
    plan = plan_of(spec)
    assert plan is not None  # Only an emergency has none.
    judge = Judge.start(plan, control="concurrent" if concurrent else "before")
    past = every_tick(telemetry, judge.reads, case.past_control, case.past_canary, case.past)
    judge.rehearse(
        {metric: [tick.windows.get(metric, Window()) for tick in past] for metric in judge.reads},
        [tick.outcomes or Outcomes() for tick in past],
        gap_ticks=(case.judged.start - case.past.end).total_seconds() / WINDOW_S,
    )
    for place, tick in enumerate(every_tick(telemetry, judge.reads, case.control, case.canary, case.judged), start=1):
        judge.feed(tick.windows, tick.outcomes)
        if place % LOOK_TICKS == 0:
            judge.look()
    judge.look()
    return judge
