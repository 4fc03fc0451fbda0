"""The requests behind a point of a chart: the kept slowest, else those of the request log.

Guarantee: "none" is said only after both were looked at; where the log's answer was cut, that is said too.
"""

from datetime import datetime, timedelta
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import Exemplar
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import TTFT

LONGEST_S = 600.0
"""A request that ended in a step arrived at most this long before it, as far as this page looks."""

LOOKED_AT = 500
"""Requests read from the log: the most that one page of it holds."""

SHOWN = 20


def from_the_log(
    client: Client, metric: str, pool: str | None, at: str, step_s: int, above: float | None
) -> tuple[list[Exemplar], bool]:
    """Requests whose value was complete in the step that begins at `at`, the slowest first; and whether all were seen.

    The log is kept for 48 h and holds every request, where exemplars are the slowest few of each minute.
    """
    start = _moment(at)
    end = start + timedelta(seconds=step_s)
    asked: dict[str, Any] = {"pool": pool, "order": "slowest", "limit": LOOKED_AT}
    page = client.requests(start=start - timedelta(seconds=LONGEST_S), end=end, **asked)
    found = [one for record in page.items if (one := _as_exemplar(record, metric)) is not None]
    fit = [one for one in found if start <= one.time < end and (above is None or one.value > above)]
    return sorted(fit, key=lambda one: -one.value)[:SHOWN], page.next is None


def _as_exemplar(record: RequestRecord, metric: str) -> Exemplar | None:
    """The request as what explains `metric`, at the instant at which its value was complete; None without a value."""
    value, e2e_s = record.parts.get(metric), record.parts.get("e2e")
    after_s = value if metric == TTFT.short else e2e_s
    if value is None or after_s is None:
        return None
    return Exemplar(
        metric=metric,
        value=value,
        time=record.arrival + timedelta(seconds=after_s),
        prompt_bucket="",
        **record.model_dump(),
    )


def _moment(at: str) -> datetime:
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        raise BadRequest("at: wants a moment in RFC 3339", field="at") from None
    if found.tzinfo is None:
        raise BadRequest("at: wants a time zone", field="at")
    return found
