"""What a study of several objectives leaves to choose among: a row a configuration, and each two objectives drawn.

Pure. Once there is a result, what is on the front is the worker's word, at what it believes after all trials; before
that it is what no trial beats in its one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from controlplane.contract.bodies.studies import FrontMember, Objective, Study, Trial
from controlplane.contract.knobs import canonical_json, difference
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.planning.objective_text import front_text, value_text
from web.drawing.fronts.pareto_chart import ParetoChart, Placed, Side, pareto_chart
from web.frame.format import knob as knob_words
from web.rollouts.proposal_page import address_of


@dataclass(frozen=True)
class FrontRow:
    """`values`: one an objective; `changes`: from the default; `sign`: "default", "winner" or empty; `proposal`: where
    it becomes a rollout, empty for the default."""

    number: int
    runs: int
    values: list[str]
    keeps_limits: float
    changes: str
    sign: str
    proposal: str


def front_rows(study: Study) -> list[FrontRow]:
    """In the worker's order; empty where there is one objective, or no result."""
    return [] if study.result is None else [_row(study, one) for one in study.result.front]


def front_charts(study: Study, search: Sequence[Trial]) -> list[tuple[str, ParetoChart]]:
    """Of each two objectives, with a title. search: the trials of the search."""
    objectives = study.spec.objectives
    placed = _placed(study, [trial for trial in search if trial.reported_at])
    found = []
    for one, other in combinations(objectives, 2):
        chart = pareto_chart(
            [_of(point, one, other) for point in placed], _side(one), _side(other), joined=len(objectives) == 2
        )
        if chart is not None:
            found.append((f"{_side(one).name} against {_side(other).name}", chart))
    return found


def aim_words(objective: Objective) -> str:
    """ "TTFT p95", "time per good request"."""
    return " ".join(map(metric_name, objective.aim.split(" ")))


@dataclass(frozen=True)
class _Point:
    number: int
    of: str
    values: Mapping[str, float]
    feasible: bool
    in_front: bool
    ends: Mapping[str, tuple[float, float]]


def _placed(study: Study, search: Sequence[Trial]) -> list[_Point]:
    first = study.spec.objectives[0].name
    told = {
        trial.number: {**({first: trial.objective_s} if trial.objective_s else {}), **trial.also_s} for trial in search
    }
    members = {canonical_json(one.knobs): one for one in study.result.front} if study.result is not None else {}
    names = [one.name for one in study.spec.objectives]
    kept = [trial for trial in search if trial.feasible and all(told[trial.number].get(name) for name in names)]
    alone = {
        trial.number
        for trial in kept
        if study.result is None and not any(_beats(told[other.number], told[trial.number], names) for other in kept)
    }
    found, drawn = [], set()
    for trial in search:
        key = canonical_json(trial.knobs)
        member = members.get(key)
        if member is not None and key in drawn:
            continue
        drawn.add(key)
        values = told[trial.number] if member is None else {name: of.value_s for name, of in member.values.items()}
        ends = {} if member is None else {name: (of.low_s, of.high_s) for name, of in member.values.items()}
        in_front = member is not None or trial.number in alone
        found.append(_Point(trial.number, trial.kind, values, trial.feasible or member is not None, in_front, ends))
    return found


def _beats(one: Mapping[str, float], other: Mapping[str, float], names: Sequence[str]) -> bool:
    return all(one[name] <= other[name] for name in names) and any(one[name] < other[name] for name in names)


def _of(point: _Point, one: Objective, other: Objective) -> Placed:
    names = (one.name, other.name)
    ends = (point.ends[names[0]], point.ends[names[1]]) if point.ends else None
    at = (point.values.get(names[0]), point.values.get(names[1]))
    return Placed(point.number, point.of, at, point.feasible, point.in_front, ends)


def _side(objective: Objective) -> Side:
    return Side(aim_words(objective), lambda value: value_text(objective, value))


def _row(study: Study, member: FrontMember) -> FrontRow:
    assert study.result is not None
    result = study.result
    changed = {name: member.knobs[name] for name in difference(member.knobs, result.default, unreported=True)}
    is_winner = bool(result.repeats) and member.knobs == result.winner
    return FrontRow(
        number=member.number,
        runs=member.runs,
        values=[front_text(one, member) for one in study.spec.objectives],
        keeps_limits=member.keeps_limits,
        changes=", ".join(f"{name} {knob_words(value)}" for name, value in changed.items()) or "none",
        sign="winner" if is_winner else "" if changed else "default",
        proposal=_proposal(study, member, changed) if changed else "",
    )


def _proposal(study: Study, member: FrontMember, changed: Mapping[str, Any]) -> str:
    """The form of a new rollout, filled in."""
    said = {name: knob_words(value) for name, value in changed.items()}
    said |= {"pool": study.spec.pool, "reason": f"trial {member.number} of study {study.id}"}
    if study.default_revision is not None:
        said["revision"] = str(study.default_revision)
    return address_of(said)
