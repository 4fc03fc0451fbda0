"""What the load saw acknowledged against what the API counts, node by node and metric by metric."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.telemetry_measures.fleet.fleet_plan import FleetOutcome, FleetPlan
from benchmarks.telemetry_measures.fleet.report_bodies import node_name, pool_name
from benchmarks.telemetry_measures.fleet.report_shape import HISTOGRAMS
from controlplane.client import Client
from controlplane.telemetry.values.timespan import start_of


@dataclass(frozen=True)
class Balance:
    """Values: acknowledged and counted in all; `wrong`: pairs of node and metric whose two counts differ."""

    acknowledged: int
    counted: int
    missing: int
    surplus: int
    wrong: int

    @property
    def exact(self) -> bool:
        return self.wrong == 0

    @property
    def told(self) -> str:
        if self.exact:
            return f"{self.counted:,} values counted, exactly those acknowledged"
        return (
            f"**{self.acknowledged:,} values acknowledged, {self.counted:,} counted** ({self.missing:,} missing, "
            f"{self.surplus:,} too many, in {self.wrong:,} pairs of node and metric)"
        )


def balance(client: Client, plan: FleetPlan, outcome: FleetOutcome, metrics: Sequence[str] | None = None) -> Balance:
    """Ask for the whole span of the load, by node, a pool at a time. `metrics`: short names, all when left out."""
    start, end = start_of(outcome.first_window), start_of(outcome.last_window + 1)
    acknowledged = counted = missing = surplus = wrong = 0
    for place, metric in enumerate(HISTOGRAMS):
        if metrics is not None and metric.short not in metrics:
            continue
        found: dict[str, int] = {}
        for pool in range(plan.pools):
            answer = client.quantiles(metric.short, (0.5,), start=start, end=end, by=("node",), pool=pool_name(pool))
            for series in answer.series:
                found[series.labels["node"]] = found.get(series.labels["node"], 0) + series.count
        for node, row in enumerate(outcome.counted):
            told = found.pop(node_name(node), 0)
            acknowledged, counted = acknowledged + row[place], counted + told
            missing, surplus = missing + max(0, row[place] - told), surplus + max(0, told - row[place])
            wrong += told != row[place]
        wrong, surplus = wrong + len(found), surplus + sum(found.values())
        counted += sum(found.values())
    return Balance(acknowledged, counted, missing, surplus, wrong)
