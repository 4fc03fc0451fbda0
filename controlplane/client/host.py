"""What a node's agent measured of the machine under its engine, asked of the API by its typed client."""

from dataclasses import dataclass

from controlplane.client import Client
from controlplane.contract import metrics
from controlplane.contract.metrics import NODE, Metric, MetricKind
from controlplane.contract.reports.gpu_clocks import in_words
from controlplane.contract.share_text import share_text

WINDOW, WINDOW_LENGTH_S = "1m", 60.0

HOST: tuple[Metric, ...] = (
    metrics.HOST_OTHER_CPU,
    metrics.HOST_ENGINE_CPU,
    metrics.HOST_FLEET_CPU,
    metrics.HOST_RUN_DELAY,
    metrics.HOST_PRESSURE_CPU,
    metrics.HOST_PRESSURE_MEMORY,
    metrics.HOST_PRESSURE_IO,
    metrics.HOST_STEAL,
    metrics.HOST_THROTTLED,
    metrics.HOST_CPU_LIMIT,
    metrics.HOST_RUN_QUEUE,
    metrics.HOST_MAJOR_FAULTS,
    metrics.HOST_MEMORY_AVAILABLE,
)
GPU: tuple[Metric, ...] = (
    metrics.GPU_CLOCK,
    metrics.GPU_THROTTLE_REASON,
    metrics.GPU_TEMPERATURE,
    metrics.GPU_POWER,
    metrics.GPU_MEMORY,
    metrics.GPU_OTHER_UTILIZATION,
    metrics.GPU_ECC,
    metrics.GPU_XID,
)


@dataclass(frozen=True)
class HostFigure:
    """One figure of the last minute: a gauge's newest value, a sum's rate a second. None: not measured."""

    metric: Metric
    value: float | None

    @property
    def words(self) -> str:
        """With its unit, for people."""
        if self.value is None:
            return "not measured"
        if self.metric is metrics.GPU_THROTTLE_REASON:
            return in_words(int(self.value)) or "none"
        if self.metric is metrics.GPU_XID:
            return f"{self.value:.0f}" if self.value else "none"
        if self.metric.kind is MetricKind.SUM:
            return f"{self.value:,.0f} a second" if self.value >= 10 else f"{self.value:.2g} a second"
        if self.metric.unit == "1":
            return share_text(self.value)
        unit = {"Cel": "°C", "{cpu}": "CPUs", "{task}": "tasks"}.get(self.metric.unit, self.metric.unit)
        return f"{self.value:,.4g} {unit}"


def host_figures(client: Client, node: str) -> list[HostFigure]:
    """Of one node. A GPU's are there only if it has one; all others always, for "not measured" is to be seen."""
    found = [_figure(client, node, metric) for metric in HOST]
    first = _figure(client, node, GPU[0])
    if first.value is not None:
        found += [first, *(_figure(client, node, metric) for metric in GPU[1:])]
    return found


def _figure(client: Client, node: str, metric: Metric) -> HostFigure:
    series = client.scalars(metric.short, window=WINDOW, by=(NODE.label,), node=node).series
    if not series:
        return HostFigure(metric, None)
    value = series[0].value
    return HostFigure(metric, value / WINDOW_LENGTH_S if metric.kind is MetricKind.SUM else value)
