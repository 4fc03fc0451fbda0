"""Checks of the latency metrics that a condition names: each error names its field and the mend."""

from collections.abc import Iterable

from controlplane.contract.bodies.knob_schema import HISTOGRAMS
from controlplane.contract.errors import BadRequest, nearest


def check_metrics(named: Iterable[tuple[str, str]]) -> None:
    for field, metric in named:
        if metric not in HISTOGRAMS:
            raise BadRequest(f"{field}: no latency metric {metric!r}, {nearest(metric, HISTOGRAMS)}", field=field)


def check_unique(field: str, names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise BadRequest(f"{field}: {twice} is there twice; name it once", field=field)
