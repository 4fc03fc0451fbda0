"""What tells two sides apart: a box of a heat map from what is outside of it, and quantiles of two spans or labels."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field


class Against(StrEnum):
    """What the requests inside a box are compared with."""

    SPAN = "span"  # The requests of the same time whose value lies outside of the box.
    BEFORE = "before"  # All requests of as much time just before it.


class LookedAt(BaseModel):
    """How many requests one side has."""

    found: int = Field(description="requests of the log that fit")
    looked_at: int = Field(description="how many of them were looked at; fewer than `found`: a uniform sample")
    start: datetime = Field(description="the side's span: its start")
    end: datetime = Field(description="the side's span: its end")


class ExplainedValue(BaseModel):
    """One value of a factor: how many requests inside and outside have it."""

    value: str = Field(description="the value, or the bin of a figure; empty: not told")
    inside: int = Field(description="requests inside that have it")
    outside: int = Field(description="requests outside that have it")
    share_inside: float = Field(description="`inside` by the factor's `inside`")
    share_outside: float = Field(description="`outside` by the factor's `outside`")
    difference: float = Field(description="share_inside less share_outside")
    low: float = Field(description="the difference's interval: its lower end; all intervals hold at once with 95 %")
    high: float = Field(description="the difference's interval: its upper end")
    p_value: float = Field(description="of an exact test, corrected for all values of all factors")
    named: bool = Field(description="whether chance is ruled out: p_value at most `alpha`")


class ExplainedFactor(BaseModel):
    """A label, or a figure in bins, by how strongly it tells inside from outside."""

    factor: str = Field(
        description="a label, `output_tokens`, a figure of the batch at the first token, or a state of the request's "
        "node, not of the request: `step_limit`, what bound most of its engine's steps, and `host_state`, `busy` where "
        "CPU, memory, I/O, a quota or steal held its host up, in the 5 s in the middle of what the request waited for "
        "(wider where those are not kept, or too many)"
    )
    label: bool = Field(description="whether it is a label, and its values filters of other queries")
    score: float = Field(description="bias-corrected Cramér's V: 0 tells nothing apart, 1 everything")
    p_value: float = Field(description="the smallest of its values', corrected")
    named: bool = Field(description="whether chance is ruled out for one of its values")
    sentence: str = Field(description="in plain words")
    inside: int = Field(description="requests inside of which it is known")
    outside: int = Field(description="requests outside of which it is known")
    values: list[ExplainedValue] = Field(description="at most 10: named ones first, then the largest difference")
    others: int = Field(description="values beyond these that were tested")
    among_alike: float | None = Field(
        default=None,
        description="the difference of the sentence's value among requests that are alike in the first factor: near 0, "
        "it only goes along with that one; null for the first and those not named",
    )


class ExplainedPart(BaseModel):
    """Means of one part of the waterfall, seconds."""

    part: str = Field(description="short name of its metric")
    inside_s: float = Field(description="mean of the requests inside")
    outside_s: float = Field(description="mean of those outside")
    difference_s: float = Field(description="inside_s less outside_s")
    low_s: float = Field(description="the difference's 95 % interval: its lower end")
    high_s: float = Field(description="the difference's 95 % interval: its upper end")


class ExplainAnswer(BaseModel):
    """`GET /api/v1/explain`: factors that are named first, the strongest first. A box over nothing names none."""

    metric: str = Field(description="short name of what the box's bounds are of")
    low: float | None = Field(description="the box's lower bound, seconds; null: none")
    high: float | None = Field(description="the box's upper bound, seconds; null: none")
    against: Against = Field(description="what the box is compared with")
    sentence: str = Field(description="the answer in plain words")
    alpha: float = Field(description="the chance that a box over nothing names anything is at most this")
    inside: LookedAt = Field(description="the requests whose value was complete within the box")
    outside: LookedAt = Field(description="those it is compared with")
    log_from: datetime = Field(description="how far back the log of requests reaches")
    factors: list[ExplainedFactor] = Field(description="those that are named first, the strongest first")
    parts: list[ExplainedPart] = Field(description="means of the waterfall, the largest difference first")


class ComparedSide(BaseModel):
    """What one side is of."""

    start: datetime = Field(description="the span's start")
    end: datetime = Field(description="the span's end")
    labels: dict[str, list[str]] = Field(description="the labels it is filtered by, each with any of these values")


class Bounded(BaseModel):
    """A value with its interval at the answer's level."""

    value: float = Field(description="the value")
    low: float = Field(description="its interval's lower end")
    high: float = Field(description="its interval's upper end")


class ComparedQuantile(BaseModel):
    """One quantile of both sides. Where a side has too few values there is no interval, and no difference."""

    q: str = Field(description='the quantile as asked, e.g. "0.99"')
    needed: int = Field(description="values that a side must have for an interval of this quantile")
    a_value: float | None = Field(description="of side a; null: it has no values")
    b_value: float | None = Field(description="of side b; null: it has no values")
    a: Bounded | None = Field(description="of side a with its interval; null: fewer values than `needed`")
    b: Bounded | None = Field(description="of side b with its interval; null: fewer values than `needed`")
    difference: Bounded | None = Field(description="a less b; null: one of them has no interval")
    ratio: Bounded | None = Field(description="a by b; null: one of them has no interval, or reaches zero")
    differs: bool | None = Field(description="whether zero lies outside of the difference's interval; null: not known")
    sentence: str = Field(description="in plain words")


class ComparedMetric(BaseModel):
    """A metric, or a part of the waterfall, on both sides."""

    metric: str = Field(description="short name")
    unit: str = Field(description="of its values, as UCUM")
    a_count: int = Field(description="values of side a")
    b_count: int = Field(description="values of side b")
    a_mean: float | None = Field(description="mean of side a; null: no values")
    b_mean: float | None = Field(description="mean of side b; null: no values")
    relative_error: float = Field(description="how far off a value may be by its bucket; intervals are that much wider")
    quantiles: list[ComparedQuantile] = Field(description="in the order asked")


class CompareAnswer(BaseModel):
    """`GET /api/v1/compare`: the metric first, then each part that a side has values of."""

    level: float = Field(description="each interval holds what is true with this chance, requests being independent")
    a: ComparedSide = Field(description="the side of the plain parameters")
    b: ComparedSide = Field(description="the side of the parameters that begin with b_")
    metrics: list[ComparedMetric] = Field(description="the metric asked for, then the parts of e2e")
