"""What a symptom looks at, as data: one form for each question that telemetry can be asked, each with its limit.

Guarantee: an expression names metrics and labels of the contract, of the kind that its form can use, and has exactly
one direction; what it is to be judged by besides (a share held, a count, a bound) is in it, so that the page of a
symptom says all that its judge does.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controlplane.contract.errors import nearest
from controlplane.contract.metrics import BY_SHORT, LABELS, WINDOW_S, MetricKind

By = Literal["node", "pool"]
Values = Annotated[list[str], Field(min_length=1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limited(Strict):
    """A figure and the side of its limit on which it is wrong."""

    above: float | None = None
    below: float | None = None

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        if (self.above is None) == (self.below is None):
            raise ValueError("give one of above and below")
        return self

    @property
    def limit(self) -> float:
        limit = self.above if self.above is not None else self.below
        assert limit is not None
        return limit


class Amount(Strict):
    """What is added up: a sum, or of a histogram its seconds; of the label values in `where`, else of all."""

    metric: str
    where: dict[str, Values] = {}

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.SUM, MetricKind.HISTOGRAM)
        known_labels(self.where)
        return self


class Level(Limited):
    """A gauge against a limit. magnitude: either side of zero; bits: of a gauge of flags only these, above 0 if any."""

    metric: str
    magnitude: bool = False
    bits: int = 0

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.GAUGE)
        return self


class Levels(Strict):
    """All of `terms` hold in at least the share `held` of a node's windows. The first term has the rule's threshold."""

    form: Literal["levels"]
    window_s: float = Field(ge=WINDOW_S)
    terms: Annotated[list[Level], Field(min_length=1)]
    held: float = Field(default=0.9, gt=0.0, le=1.0)
    min_windows: int = Field(default=3, ge=1)
    by: Literal["node"] = "node"

    @property
    def limited(self) -> Limited:
        return self.terms[0]


class Ratio(Limited):
    """One amount over another, by Wilson's bound where they count.

    clump: so many of what is counted come together and say no more than one. gates: other ratios that must hold too.
    """

    form: Literal["ratio"]
    by: By = "pool"
    window_s: float = Field(ge=WINDOW_S)
    over: Amount
    under: Amount
    min_under: float = Field(default=1.0, gt=0.0)
    min_over: float = Field(default=0.0, ge=0.0)
    clump: float = Field(default=1.0, ge=1.0)
    is_share: bool = True
    gates: list["Gate"] = []

    @property
    def limited(self) -> Limited:
        return self


class Gate(Limited):
    """A ratio of two amounts that must lie on its side of the limit as well, by its plain value."""

    over: Amount
    under: Amount


class Trend(Strict):
    """A gauge that moves steadily towards `limit` and is there within `reach_s`, by Mann and Kendall's test."""

    form: Literal["trend"]
    by: Literal["node"] = "node"
    metric: str
    window_s: float
    step_s: float = Field(ge=WINDOW_S)
    limit: float
    below: float
    min_z: float = Field(default=3.0, gt=0.0)

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.GAUGE)
        return self

    @property
    def limited(self) -> Limited:
        return Limited(below=self.below)


class Silence(Strict):
    """A node that reported `metric` within `remembered_s` and has not for as many seconds as `above` says."""

    form: Literal["silence"]
    by: Literal["node"] = "node"
    metric: str
    above: float
    remembered_s: float

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.GAUGE)
        return self

    @property
    def window_s(self) -> float:
        return self.remembered_s

    @property
    def limited(self) -> Limited:
        return Limited(above=self.above)


class Tail(Strict):
    """Of the values of `metric` above its own quantile `q`, more than the share `above` has one of `values` as its
    label, and of all values at most `most_of_all`."""

    form: Literal["tail"]
    by: Literal["pool"] = "pool"
    window_s: float
    metric: str
    q: float = Field(gt=0.5, lt=1.0)
    label: str
    values: Values
    above: float
    most_of_all: float
    min_count: int = Field(ge=1)

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.HISTOGRAM)
        known_labels({self.label: self.values})
        return self

    @property
    def limited(self) -> Limited:
        return Limited(above=self.above)


class Cohort(Strict):
    """The nodes of one arm against the others of their pool: more than the share `above` of the arm's values lie beyond
    the others' quantile `q`.

    arm: `young` nodes were first heard from at most `young_s` ago; `quantized` ones run a weight format of their own.
    matched: where both arms' mean of this gauge differ by more than a quarter, nothing is said.
    """

    form: Literal["cohort"]
    by: By = "node"
    window_s: float
    metric: str
    arm: Literal["young", "quantized"]
    q: float = Field(gt=0.0, lt=1.0)
    above: float
    min_count: int = Field(ge=1)
    young_s: float = 0.0
    matched: str | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        known(self.metric, MetricKind.HISTOGRAM)
        if self.matched is not None:
            known(self.matched, MetricKind.GAUGE)
        return self

    @property
    def limited(self) -> Limited:
        return Limited(above=self.above)


class OtherKind(Strict):
    """Judged by a kind of rule of its own; the catalogue has its page only."""

    form: Literal["kind"]
    kind: str


FORMS: tuple[type[Strict], ...] = (Levels, Ratio, Trend, Silence, Tail, Cohort, OtherKind)
Expression = Annotated[
    Levels | Ratio | Trend | Silence | Tail | Cohort | OtherKind,
    Field(discriminator="form"),
]


def known(metric: str, *kinds: MetricKind) -> None:
    """Raises ValueError with the nearest name of the contract."""
    found = BY_SHORT.get(metric)
    if found is None:
        raise ValueError(f"no metric {metric!r}, {nearest(metric, list(BY_SHORT))}")
    if found.kind not in kinds:
        raise ValueError(f"{metric} is a {found.kind.value}, wanted is a {' or a '.join(kinds)}")


def known_labels(where: dict[str, list[str]]) -> None:
    for label in where:
        if label not in LABELS:
            raise ValueError(f"no label {label!r}, {nearest(label, list(LABELS))}")
