"""Which stage got slower, and why: from what was measured before and during, to one sentence for a tired reader.

The stages' means add up to the metric's mean exactly, so a stage's share of the increase is its growth over the sum of
all growth. That holds for a slow tail too: requests that did not change add nothing to either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.alerts.diagnosis.causes import Cause, Context, causes
from controlplane.alerts.diagnosis.draft_causes import NO_DRAFTS, Drafts
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.ranking import BY_TOKEN, MIXES
from controlplane.alerts.diagnosis.shift_parts import ReadShift, attribution
from controlplane.alerts.words import percentile
from controlplane.contract.bodies.alerts import Diagnosis, StageShift
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.duration_text import duration_text
from controlplane.contract.histogram import RELATIVE_ERROR, error_text, is_coarse
from controlplane.contract.metrics import (
    DECODE,
    E2E,
    ITL,
    PREFILL,
    QUEUE,
    RECEIVE,
    REQUEST_PARTS,
    SEND,
    STEP_COMMIT,
    STEP_FORWARD,
    STEP_SAMPLE,
    STEP_SCHEDULE,
    TOKENIZE,
    TPOT,
    TTFT,
    UNACCOUNTED,
)
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.contract.share_text import share_text
from controlplane.evidence.sketch import Sketch

STEP_PARTS: tuple[str, ...] = tuple(part.short for part in (STEP_SCHEDULE, STEP_FORWARD, STEP_SAMPLE, STEP_COMMIT))

_FIRST_TOKEN = tuple(part.short for part in (RECEIVE, TOKENIZE, QUEUE, PREFILL))
_REQUEST = tuple(part.short for part in (*REQUEST_PARTS, UNACCOUNTED))

STAGES: dict[str, tuple[str, ...]] = {
    TTFT.short: _FIRST_TOKEN,
    E2E.short: _REQUEST,
    ITL.short: STEP_PARTS,
    TPOT.short: STEP_PARTS,
    **dict.fromkeys((TOKENIZE.short, PREFILL.short), _FIRST_TOKEN),
    **dict.fromkeys((SEND.short, UNACCOUNTED.short), _REQUEST),
}
"""What a metric is made of, or, of a stage, what the sum is made of that users feel it in. A gap between tokens is one
step of the engine, so its stages are a step's parts."""

IN_WORDS: dict[str, str] = {
    UNACCOUNTED.short: "time nobody accounts for",
    STEP_SCHEDULE.short: "scheduling within decode steps",
    STEP_FORWARD.short: "the forward pass of decode steps",
    STEP_SAMPLE.short: "sampling within decode steps",
    STEP_COMMIT.short: "handing out tokens within decode steps",
}


@dataclass(frozen=True)
class Shift:
    """The alerting metric: its quantile before and during, and since when."""

    metric: str
    q: float
    before_s: float | None
    during_s: float | None
    since: datetime
    limit_s: float | None = None
    relative_error: float = RELATIVE_ERROR
    felt: str = ""  # What users feel of it, in words.


@dataclass(frozen=True)
class Measured:
    """Sketches by metric (short name) before and during; an absent one was not reported."""

    before: Mapping[str, Sketch] = field(default_factory=dict)
    during: Mapping[str, Sketch] = field(default_factory=dict)


def diagnose(
    shift: Shift,
    measured: Measured,
    context: Context,
    read: ReadShift | None = None,
    plausibility: Mapping[str, float] = PRIOR,
) -> Diagnosis:
    """Name the stage with the largest share of the increase, and the causes, the likeliest first.

    Shares are of the slowest requests where single ones are known (`read`), else of the stages' means.
    """
    moved = None if read is None else attribution(read, context.ledger)
    parts = STAGES.get(shift.metric, (shift.metric,))
    stages = stage_shifts(measured, parts)
    if not any(stage.share_of_increase > 0.0 for stage in stages) and parts is STEP_PARTS:
        stages = stage_shifts(measured, (DECODE.short,))
    top = max(stages, key=lambda stage: stage.share_of_increase, default=None)
    if top is not None and top.share_of_increase <= 0.0:
        top = None
    found = causes(context, shift.since, moved, plausibility)
    moved = placed(moved, found, context.drafts)
    stage = None if top is None else top.stage
    share = None if top is None else Named(top.stage, top.share_of_increase)
    tail = None if moved is None or not moved.stages else moved.stages[0]
    if tail is not None and tail.share > 0.0:
        stage, share = tail.stage, Named(tail.stage, tail.share)
    if shift.metric in BY_TOKEN:
        stage = DECODE.short  # Whatever its parts say: these are what decoding is made of.
    if shift.metric in parts:
        stage = shift.metric  # The alert is about a stage; what that does to the others stands in `stages`.
    return Diagnosis(stage=stage, summary=sentence(shift, share, found), stages=stages, causes=found, attribution=moved)


def stage_shifts(measured: Measured, parts: Sequence[str]) -> list[StageShift]:
    """One entry per part that was reported during, in the parts' order."""
    rows: list[tuple[str, Sketch | None, Sketch, float]] = []
    for part in parts:
        before, during = measured.before.get(part), measured.during.get(part)
        if during is None or not during.count:
            continue
        grown = 0.0
        if before is not None and before.count:
            grown = max(0.0, (during.mean or 0.0) - (before.mean or 0.0))
        rows.append((part, before, during, grown))
    growth = sum(row[3] for row in rows)
    return [
        StageShift(
            stage=part,
            before_mean_s=None if before is None else before.mean,
            during_mean_s=during.mean,
            before_p99_s=before.quantile(0.99) if before is not None and before.count else None,
            during_p99_s=during.quantile(0.99),
            share_of_increase=round(grown / growth, 4) if growth > 0.0 else 0.0,
        )
        for part, before, during, grown in rows
    ]


def placed(moved: Attribution | None, found: Sequence[Cause], drafts: Drafts = NO_DRAFTS) -> Attribution | None:
    """With the place that fits the first cause. Where more work comes than a pool can bear one node is full first by
    chance, requests that were quick are slower by more, and often none stands out, for all wait: the place is whose
    requests came, or which, and of load or longer answers alone none. Of drafts it is the group that they give fewer
    alone, and none that shares its loss: who had more of them gets slower by more.
    """
    first = str(found[0]["cause"])
    if moved is not None and first == CauseKind.ACCEPTANCE:
        return _placed_by_drafts(moved, drafts)
    if (
        moved is None
        or first not in (CauseKind.LOAD, CauseKind.ANSWER_MIX, *MIXES)
        or not _gives_way(moved.place, first)
    ):
        return moved
    label, value = MIXES.get(first), found[0].get("value")
    of_mix = (place for place in moved.places if place.label == label and place.how is HowMoved.MIX)
    return moved.model_copy(update={"place": next((one for one in of_mix if value in (None, one.value)), None)})


def _placed_by_drafts(moved: Attribution, drafts: Drafts) -> Attribution:
    apart, place = drafts.apart, moved.place
    if apart is not None:
        own = apart.label, apart.value, HowMoved.WITHIN
        place = next((one for one in moved.places if (one.label, one.value, one.how) == own), None)
    elif place is not None and drafts.is_shared(place.label, place.value):
        place = None
    return moved.model_copy(update={"place": place})


def _gives_way(place: PlaceOfShift | None, first: str) -> bool:
    """What came is why some take longer; and one tenant's sending more, why there are more of any kind."""
    is_other_mix = first == CauseKind.TENANT_MIX and place is not None and place.how is HowMoved.MIX
    return place is None or place.how is HowMoved.WITHIN or is_other_mix


class Named(NamedTuple):
    """A stage, and its share of the shift."""

    stage: str
    share: float


def sentence(shift: Shift, top: Named | None, found: Sequence[Mapping[str, Any]]) -> str:
    """The summary: what, how much, since when; the stage; the first cause."""
    name = f"{metric_title(shift.metric)} {percentile(shift.q)}"
    since = f"since {shift.since:%H:%M:%S} UTC"
    if shift.before_s is None or shift.during_s is None or shift.during_s <= shift.before_s:
        value = "" if shift.during_s is None else f" is {duration_text(shift.during_s)}"
        limit = "" if shift.limit_s is None else f", limit {duration_text(shift.limit_s)}"
        text = f"{name}{value or ' is slower than its baseline'}{limit}, {since}"
    else:
        limit = "" if shift.limit_s is None else f" (limit {duration_text(shift.limit_s)})"
        text = f"{name} rose from {duration_text(shift.before_s)} to {duration_text(shift.during_s)}{limit} {since}"
    if is_coarse(shift.relative_error):
        text += f" ({error_text(shift.relative_error)})"
    text += shift.felt
    if top is not None and top.stage != shift.metric:
        text += f"; {share_text(min(top.share, 1.0))} of it is {IN_WORDS.get(top.stage, top.stage)}"
    return text + (f"; {found[0]['message']}." if found else ".")
