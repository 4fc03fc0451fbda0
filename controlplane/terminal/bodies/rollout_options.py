"""The fields of a wanted rollout as options of a command."""

from collections.abc import Sequence

from controlplane.contract.bodies.rollouts import RolloutCreate, Stage
from controlplane.contract.bodies.slo import Limit
from controlplane.terminal.bodies.contract_options import ContractOptions, Form
from controlplane.terminal.bodies.limit_option import parse_limit
from controlplane.terminal.bodies.rollout_stages import stages_of
from controlplane.terminal.service_connection import fail


def levels_of(texts: Sequence[str]) -> dict[str, list[float]]:
    """["ttft=0.9,0.99"] as `RolloutCreate.levels`. Leaves with status 2 for what is none."""
    found: dict[str, list[float]] = {}
    for text in texts:
        metric, _, levels = text.partition("=")
        try:
            found[metric.strip()] = [float(level) for level in levels.split(",")]
        except ValueError:
            fail(f"--levels: wants METRIC=QUANTILE,QUANTILE such as ttft=0.9,0.99, got {text!r}")
    return found


def _stages(text: str) -> list[Stage]:
    try:
        return stages_of(text)
    except ValueError as error:
        fail(f"--stages: {error}")


def _limits(texts: Sequence[str]) -> list[Limit]:
    return [parse_limit(text, "--limits") for text in texts]


def _listed(text: str) -> list[str]:
    return [value.strip() for value in text.split(",") if value.strip()]


with_rollout_fields = ContractOptions(
    RolloutCreate,
    by_command=("pool", "revision", "max_blast", "profile"),
    forms={
        "metrics": Form("METRIC,METRIC", _listed),
        "levels": Form("METRIC=QUANTILE,QUANTILE", levels_of, repeats=True),
        "limits": Form("METRIC:QUANTILE<=SECONDS", _limits, repeats=True),
        "stages": Form("one,10%,50%:pause,all", _stages),
        "wave_order": Form("VALUE,VALUE", _listed),
    },
)
