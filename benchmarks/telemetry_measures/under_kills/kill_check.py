"""What the service counts of kill reports and of real agents' requests, against what was acknowledged and told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.telemetry_measures.under_kills.kill_reports import NODES, POOL, SPACING, KillReports, values_of
from controlplane.client import Client
from controlplane.contract.metrics import WINDOW_S
from controlplane.telemetry.values.timespan import start_of, window_at

_STEP_S = SPACING * WINDOW_S
_CHUNK = 300
"""Steps asked for at once."""


@dataclass
class Findings:
    """Numbers of reports (or windows of real agents): acknowledged and not there; there more than once; half there."""

    checked: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.odd)

    @property
    def told(self) -> str:
        kinds = (("lost", self.lost), ("doubled", self.doubled), ("odd", self.odd))
        return "; ".join(f"{len(found)} {name}: {', '.join(found[:5])}" for name, found in kinds if found) or "nothing"


def check_reports(
    client: Client, reports: KillReports, acknowledged: set[int], sent: set[int], since: int = 0
) -> Findings:
    """Every report from number `since` on, by its own node and window."""
    findings = Findings()
    last = max(sent, default=-1)
    if last < since:
        return findings
    first_step, last_step = since // NODES, last // NODES
    for begin in range(first_step, last_step + 1, _CHUNK):
        end = min(begin + _CHUNK, last_step + 1)
        span = (start_of(reports.first + begin * SPACING), start_of(reports.first + end * SPACING))
        values, requests = _counted(client, reports, span)
        for number in range(begin * NODES, min(end * NODES, last + 1)):
            findings.checked += 1
            _judge(findings, number, values.get(number, 0), requests.get(number, 0.0), number in acknowledged)
        for number in {*values, *requests} - sent:
            findings.odd.append(f"report {number} was never sent")
    return findings


def _judge(findings: Findings, number: int, values: int, requests: float, acknowledged: bool) -> None:
    wanted = values_of(number)
    if (values, requests) == (wanted, 1.0):
        return
    if not acknowledged and values in (0, wanted) and requests in (0.0, 1.0):
        # It may have been written between the two questions.
        return
    told = f"report {number} ({values} of {wanted} values, requests {requests:g})"
    if values > wanted or requests > 1.0:
        findings.doubled.append(told)
    elif acknowledged:
        findings.lost.append(told)
    else:
        findings.odd.append(told)


def _counted(
    client: Client, reports: KillReports, span: tuple[datetime, datetime]
) -> tuple[dict[int, int], dict[int, float]]:
    asked = {"start": span[0], "end": span[1], "step": f"{_STEP_S:g}s", "by": ("node",), "pool": POOL}
    quantiles = client.quantiles("ttft", (0.5,), **asked)  # type: ignore[arg-type]
    scalars = client.scalars("requests", **asked)  # type: ignore[arg-type]
    values = {
        reports.number(series.labels["node"], window_at(point.time)): point.count
        for series in quantiles.series
        for point in series.points or []
    }
    requests = {
        reports.number(series.labels["node"], window_at(point.time)): point.value
        for series in scalars.series
        for point in series.points or []
    }
    return values, requests


def check_agents(client: Client, told: Mapping[str, Mapping[int, int]], *, complete: bool) -> Findings:
    """told: by node, requests by window. Unless `complete`, what is missing may still be under way."""
    findings = Findings()
    for node, windows in told.items():
        if not windows:
            continue
        counted = _requests_by_window(client, node, windows)
        for window, requests in windows.items():
            findings.checked += 1
            found = counted.pop(window, 0)
            if found > requests:
                findings.doubled.append(f"{node}, window {window}: {found} of {requests}")
            elif found < requests and complete:
                findings.lost.append(f"{node}, window {window}: {found} of {requests}")
        findings.odd += [f"{node}, window {window}: {found} of none" for window, found in counted.items()]
    return findings


def _requests_by_window(client: Client, node: str, windows: Iterable[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    first, last = min(windows), max(windows)
    for begin in range(first, last + 1, _CHUNK):
        end = min(begin + _CHUNK, last + 1)
        answer = client.scalars(
            "requests", start=start_of(begin), end=start_of(end), step=f"{WINDOW_S:g}s", by=("node",), node=node
        )
        for series in answer.series:
            for point in series.points or []:
                window = window_at(point.time)
                found[window] = found.get(window, 0) + round(point.value)
    return found
