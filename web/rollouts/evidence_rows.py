"""What one judging (a canary's, or a wave's) found, as rows of a table. Pure.

Guarantee: it tells what the judge has written down and judges nothing itself. Evidence of an older service is told as
far as it goes: a line without a finding of its own has the word that its interval says.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.contract.on_call.metric_text import metric_name
from web.drawing.counted_bars import Counted, CountedBars, counted_bars, shared_end
from web.drawing.units import count_words, share_words
from web.drawing.verdict_bar import Judged, VerdictBar, interval_words, shared_reach, verdict_bar
from web.frame.format import seconds
from web.frame.states import Kind

Evidence = Mapping[str, Any]

FINDINGS = {
    "worse": (Kind.BAD, "worse"),
    "broken": (Kind.BAD, "broken"),
    "faster": (Kind.GOOD, "better"),
    "not_worse": (Kind.GOOD, "not worse"),
    "leaning_worse": (Kind.WARN, "leans to worse"),
    "undecided": (Kind.UNKNOWN, "not decided yet"),
}
NO_HARM = (Kind.UNKNOWN, "no harm shown")
"""Of what is held for harm alone, and so is never shown to be good."""
_LEVEL = re.compile(r"typical|p[0-9.]+")
TAIL = "tail"
ARMS = ("canary", "control")


@dataclass(frozen=True)
class Row:
    """One thing that was judged. `bar`: None where no ratio is told; `counted`: the arms of what is told by counts, and
    `counts`, the same drawn. `harm`, `not_worse`: how much there is of the
    evidence that the word takes, 0 to 1; None where it is not asked for. Counts are requests, or gaps of `itl`."""

    name: str
    kind: Kind
    word: str
    says: str
    bar: VerdictBar | None = None
    harm: float | None = None
    not_worse: float | None = None
    control: str = "–"
    canary: str = "–"
    counted: tuple[Counted, Counted] | None = None
    counts: CountedBars | None = None


@dataclass(frozen=True)
class Rows:
    """`judged`: metrics at their quantiles and tails, then guardrails; `strata`: prompt buckets. All ratios have one
    scale, and all counts another, which ends at `counted_to`; None where none is counted."""

    judged: list[Row]
    strata: list[Row]
    scale: VerdictBar | None
    counted_to: float | None


@dataclass(frozen=True)
class _Line:
    """One line of a comparison, before the scale of all is known."""

    row: Row
    ratio: Judged | None
    is_stratum: bool


def rows_of(evidence: Evidence) -> Rows:
    lines = [line for metric, told in _metrics(evidence) for line in _lines(metric, told, evidence)]
    known = [line.ratio for line in lines if line.ratio is not None]
    reach = shared_reach(known)
    drawn = [(line, _with_bar(line, reach)) for line in lines]
    judged = [row for line, row in drawn if not line.is_stratum] + _guardrails(evidence)
    counted = [arm for row in judged for arm in row.counted or ()]
    most = shared_end(counted)
    return Rows(
        judged=[
            row if row.counted is None else replace(row, counts=counted_bars(*row.counted, most)) for row in judged
        ],
        strata=[row for line, row in drawn if line.is_stratum],
        scale=verdict_bar(known[0], reach=reach) if known else None,
        counted_to=most if counted else None,
    )


def ratio_of(line: Evidence) -> Judged | None:
    """The ratio with its interval; None where there is none, or it is beyond what can be told."""
    ratio, (low, high) = line.get("ratio"), line.get("interval") or (None, None)
    if ratio is None:
        return None
    low, high = min(low or 0.0, ratio), max(math.inf if high is None else high, ratio)
    bound = max(line.get("worse_beyond") or 1.0, 1.0)
    return Judged(ratio, low, high, bound, _word(line, low, high, bound))


def _word(line: Evidence, low: float, high: float, bound: float) -> str:
    """Its finding; of older evidence what the interval says beside its bounds."""
    by_interval = "worse" if low > bound else "faster" if high < 1.0 else "not_worse" if high <= bound else "undecided"
    return str(line.get("finding", by_interval))


def _metrics(evidence: Evidence) -> Iterable[tuple[str, Evidence]]:
    found = evidence.get("metrics")
    return found.items() if isinstance(found, Mapping) else ()


def _lines(metric: str, told: Evidence, evidence: Evidence) -> list[_Line]:
    if "lines" in told:
        return [_compared(metric, name, line, told) for name, line in told["lines"].items()]
    return [_Line(row, None, False) for row in _counted(metric, told, evidence)]


def _compared(metric: str, name: str, line: Evidence, told: Evidence) -> _Line:
    ratio, log_e = ratio_of(line), line.get("log_e", {})
    wanted = name in told.get("shown", ())
    finding = ratio.verdict if ratio is not None else str(line.get("finding", "undecided"))
    kind, word = FINDINGS.get(finding, FINDINGS["undecided"])
    if finding == "undecided" and "shown" in told and not wanted:
        kind, word = NO_HARM
    is_level = _LEVEL.fullmatch(name) is not None
    judged = told.get("judged", {}) if is_level else {}
    row = Row(
        name=f"{metric_name(metric)} {name}",
        kind=kind,
        word=word,
        says=interval_words(ratio) if ratio is not None else _without_ratio(name),
        harm=_part(log_e.get("worse"), -math.log(line["alpha"]) if line.get("alpha") else None),
        not_worse=_part(log_e.get("not_worse"), told.get("log_bound_not_worse")) if wanted else None,
        control=count_words(judged.get("control")),
        canary=count_words(judged.get("canary")),
    )
    return _Line(row, ratio, not is_level and name != TAIL)


def _without_ratio(name: str) -> str:
    if name == TAIL:
        return "a part of the requests that got much slower; a shift of all does not count here"
    return "no ratio can be told yet"


def _counted(metric: str, told: Evidence, evidence: Evidence) -> list[Row]:
    """A metric whose past is not known: judged by counts above the control's quantiles."""
    kind, word = FINDINGS.get(told.get("finding", "undecided"), FINDINGS["undecided"])
    bounds, judged = evidence.get("log_bounds", {}), told.get("judged", {})
    control, canary = judged.get("control", 0), judged.get("canary", 0)
    rows = []
    for level in told.get("exceedances", []):
        q, log_e = f"p{100 * level['q']:g}", level.get("log_e", {})
        counted = (
            "counted, so without a ratio" if "worse" in log_e else "beside the objective: being faster alone counts"
        )
        arms = Counted(level["canary"], canary), Counted(level["control"], control)
        shares = ", ".join(f"{name} {arm.words}" for name, arm in zip(ARMS, arms, strict=True) if arm.whole)
        rows.append(
            Row(
                name=f"{metric_name(metric)} {q}",
                kind=kind,
                word=word,
                says=f"above the control's {q}: {shares or 'nothing yet'}; {counted}",
                harm=_part(log_e.get("worse"), bounds.get("worse")),
                not_worse=_part(log_e.get("not_worse"), bounds.get("not_worse")),
                control=count_words(control),
                canary=count_words(canary),
                counted=arms,
            )
        )
    return rows


def _guardrails(evidence: Evidence) -> list[Row]:
    rows = [_served(evidence["served"], evidence)] if evidence.get("served") else []
    return rows + [_limit(limit, evidence) for limit in evidence.get("limits", [])]


def _served(told: Evidence, evidence: Evidence) -> Row:
    kind, word = FINDINGS["worse"] if told.get("finding") == "worse" else NO_HARM
    arms = {name: told.get(name, {}) for name in ARMS}
    says = "; ".join(f"{name} {_served_words(arm)}" for name, arm in arms.items())
    harm = _part(told.get("log_e", {}).get("worse"), evidence.get("log_bounds", {}).get("worse"))
    canary, control = (count_words(arm.get("offered")) for arm in arms.values())
    lost = Counted(*_lost(arms["canary"])), Counted(*_lost(arms["control"]))
    return Row("Served share", kind, word, says, harm=harm, canary=canary, control=control, counted=lost)


def _lost(arm: Evidence) -> tuple[float, float]:
    return float(arm.get("lost") or 0), float(arm.get("offered") or 0)


def _served_words(arm: Evidence) -> str:
    if arm.get("share") is None:
        return "was offered nothing"
    why = ", ".join(f"{count_words(lost)} {reason}" for reason, lost in (arm.get("reasons") or {}).items())
    return f"lost {Counted(*_lost(arm)).words}" + (f": {why}" if why else "")


def _limit(told: Evidence, evidence: Evidence) -> Row:
    kind, word = FINDINGS["broken"] if told.get("finding") == "broken" else (Kind.UNKNOWN, "not broken so far")
    canary = told.get("canary", {})
    count, log_e = canary.get("count", 0), told.get("log_e", {})
    arms = [
        Counted(arm.get("above", 0), arm.get("count", 0)) for arm in (canary, told.get("judged", {}).get("control", {}))
    ]
    bound = evidence.get("log_bounds", {}).get("worse")
    parts = [_part(log_e.get(name), bound) for name in ("breaks", "more_often")]
    return Row(
        name=f"{metric_name(told['metric'])} p{100 * told['q']:g} at most {seconds(told['limit_s'])}",
        kind=kind,
        word=word,
        says=f"above it: canary {arms[0].words}; {share_words(1.0 - told['q'])} may be",
        harm=None if None in parts else min(part for part in parts if part is not None),
        control=count_words(told.get("judged", {}).get("control", {}).get("count")),
        canary=count_words(count),
        counted=(arms[0], arms[1]),
    )


def _part(log_e: float | None, bound: float | None) -> float | None:
    """The share of the evidence that is wanted, within 0 and 1."""
    return None if log_e is None or not bound else min(max(log_e / bound, 0.0), 1.0)


def _with_bar(line: _Line, reach: float) -> Row:
    if line.ratio is None:
        return line.row
    return replace(line.row, bar=verdict_bar(line.ratio, line.row.name, reach))
