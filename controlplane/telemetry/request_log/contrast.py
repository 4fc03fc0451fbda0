"""How differently the values of factors lie inside a set of requests and outside of it (pure).

Guarantee: where labels lie inside by chance alone, the chance that any value of any factor is named is at most `ALPHA`:
each is tested exactly (Fisher), and corrected (Holm) for looking at all of them. Which are tested follows from how many
requests have a value, inside and outside together, so that looking there gives nothing away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from controlplane.evidence.two_shares import Interval, cramers_v, fisher_exact, holm, newcombe, stratified_difference
from controlplane.telemetry.request_log.request_columns import Coded, Codes, Mask

ALPHA = 0.05
FEWEST = 5
"""A value of fewer requests is not tested."""


@dataclass(frozen=True)
class ValueContrast:
    """Requests with one value. interval: of the difference of shares; all intervals hold at once at 1 - `ALPHA`."""

    value: str
    inside: int
    outside: int
    difference: float
    interval: Interval
    p_value: float
    """Corrected for all that was looked at."""

    @property
    def is_named(self) -> bool:
        return self.p_value <= ALPHA


@dataclass(frozen=True)
class FactorContrast:
    """inside, outside: requests of which the factor is known. values: named ones first, then the largest difference."""

    factor: str
    inside: int
    outside: int
    score: float
    values: list[ValueContrast]

    @property
    def p_value(self) -> float:
        return min((one.p_value for one in self.values), default=1.0)

    @property
    def is_named(self) -> bool:
        return self.p_value <= ALPHA

    @property
    def leading(self) -> ValueContrast:
        """What speaks for the factor: of its named values the one that lies inside most."""
        named = [one for one in self.values if one.is_named] or self.values
        return max(named, key=lambda one: (one.difference > 0.0, abs(one.difference)))


@dataclass(frozen=True)
class _Table:
    """int64[values] each."""

    inside: Codes
    outside: Codes
    of_inside: int
    of_outside: int


def contrasts(columns: Mapping[str, Coded], inside: Mask) -> list[FactorContrast]:
    """Those that are named first, then the strongest first. A factor with one value only is left out."""
    tables = {factor: _table(coded, inside) for factor, coded in columns.items()}
    tables = {
        factor: table
        for factor, table in tables.items()
        if table.of_inside and table.of_outside and int(((table.inside + table.outside) > 0).sum()) > 1
    }
    tested = [
        (factor, int(place))
        for factor, table in tables.items()
        for place in np.flatnonzero(table.inside + table.outside >= FEWEST)
    ]
    p_values = dict(zip(tested, holm([_p_value(tables[factor], place) for factor, place in tested]), strict=True))
    z = NormalDist().inv_cdf(1.0 - ALPHA / (2.0 * max(len(tested), 1)))
    found = []
    for factor, table in tables.items():
        places = [place for of, place in tested if of == factor]
        values = [_value(columns[factor], table, place, p_values[factor, place], z) for place in places]
        values.sort(key=lambda one: (not one.is_named, -abs(one.difference), one.value))
        if values:
            score = cramers_v(table.inside, table.outside)
            found.append(FactorContrast(factor, table.of_inside, table.of_outside, score, values))
    return sorted(found, key=lambda one: (not one.is_named, -one.score, one.p_value))


def among_alike(factor: Coded, value: str, alike: Coded, inside: Mask) -> float | None:
    """The difference of a value's shares among requests that are alike in another factor; None where none are."""
    has = factor.among([value])
    told = (factor.codes >= 0) & (alike.codes >= 0)

    def counts(mask: Mask) -> Codes:
        return np.bincount(alike.codes[mask & told], minlength=len(alike.names))

    return stratified_difference(counts(has & inside), counts(inside), counts(has & ~inside), counts(~inside))


def _table(coded: Coded, inside: Mask) -> _Table:
    told = coded.codes >= 0
    here = np.bincount(coded.codes[told & inside], minlength=len(coded.names))
    there = np.bincount(coded.codes[told & ~inside], minlength=len(coded.names))
    return _Table(here, there, int(here.sum()), int(there.sum()))


def _p_value(table: _Table, place: int) -> float:
    return fisher_exact(int(table.inside[place]), table.of_inside, int(table.outside[place]), table.of_outside)


def _value(coded: Coded, table: _Table, place: int, p_value: float, z: float) -> ValueContrast:
    here, there = int(table.inside[place]), int(table.outside[place])
    return ValueContrast(
        value=coded.names[place],
        inside=here,
        outside=there,
        difference=here / table.of_inside - there / table.of_outside,
        interval=newcombe(here, table.of_inside, there, table.of_outside, z),
        p_value=p_value,
    )
