"""Names of metrics as the API takes them: short names, names on the wire, and senders' own names under our prefixes."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.metrics import BY_NAME, BY_SHORT, LABELS, MetricKind


@dataclass(frozen=True)
class MetricRef:
    """A metric of a query: its name on the wire, the name it is shown by, its unit, and its kind where fixed."""

    name: str
    short: str
    unit: str
    kind: MetricKind | None


def find(metric: str, own_names: Iterable[str]) -> MetricRef:
    """Raises `BadRequest` naming `metric`."""
    known = BY_SHORT.get(metric) or BY_NAME.get(metric)
    if known is not None:
        return MetricRef(known.name, known.short, known.unit, known.kind)
    own = set(own_names)
    if metric in own:
        return MetricRef(metric, metric, "", None)
    hint = nearest(metric[:100], [*BY_SHORT, *(own - set(BY_NAME))])
    raise BadRequest(f"metric: {metric[:100]!r} is not known; {hint}", field="metric")


def check_labels(labels: Iterable[str], field: str) -> None:
    for label in labels:
        if label not in LABELS:
            raise BadRequest(
                f"{field}: {label[:100]!r} is not a label; {nearest(label[:100], list(LABELS))}", field=field
            )
