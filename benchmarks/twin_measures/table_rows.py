"""Rows of a public table of measured serving that forecasts for hardware are held against.

The table: `silicon_sample.csv` of github.com/ai-dynamo/aiconfigurator (Apache-2.0), or a part of it; it is read, never
kept here. Of its rows those that are aggregated, whose precision is told, of models whose steps are forecast.
"""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import ACCELERATORS, FORMATS, kv_bytes
from controlplane.hardware.learned_pace import Measured
from controlplane.hardware.steady_batch import Deployment, Load, room

_NAMES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocabulary")


def _shape(*sizes: int, **more: int) -> ModelShape:
    return ModelShape.model_validate(dict(zip(_NAMES, sizes, strict=True)) | more)


DEEPSEEK_V3 = _shape(
    61, 7168, 128, 128, 128, 18432, 129280, experts=256, experts_a_token=8, expert_intermediate=2048,
    shared_intermediate=2048, dense_layers=3, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128,
)  # fmt: skip
LLAMA_70B = _shape(80, 8192, 64, 8, 128, 28672, 128256)
SHAPES: dict[str, ModelShape | None] = {
    "deepseek-r1": DEEPSEEK_V3,
    "deepseek-v3.2": None,
    "deepseek-v3": DEEPSEEK_V3,
    "llama-3.1-70b": LLAMA_70B,
    "llama-3.3-70b": LLAMA_70B,
    "llama-3.1-8b": _shape(32, 4096, 32, 8, 128, 14336, 128256),
    "qwen3-32b": _shape(64, 5120, 64, 8, 128, 25600, 151936),
    "qwen3-235b": _shape(
        94, 4096, 64, 4, 128, 12288, 151936, experts=128, experts_a_token=8, expert_intermediate=1536
    ),
    "minimax-m2.5": _shape(
        62, 3072, 48, 8, 128, 1536, 200064, experts=256, experts_a_token=8, expert_intermediate=1536
    ),
    "gpt-oss-120b": _shape(
        36, 2880, 64, 8, 64, 2880, 201088, experts=128, experts_a_token=4, expert_intermediate=2880,
        windowed_layers=18, window=128,
    ),
}  # fmt: skip
"""By the beginning of a model's name, the first that fits: what their config.json says; None: not forecast."""


@dataclass(frozen=True)
class TableRow:
    """One row, and where it was measured. model: the first name of all models of its shape."""

    measured: Measured
    system: str
    model: str
    precision: str

    @property
    def group(self) -> tuple[str, ...]:
        """What three points calibrate."""
        one = self.measured.deployment
        return (self.system, self.model, self.precision, one.engine, str(one.ranks))

    @property
    def has_experts(self) -> bool:
        return self.measured.deployment.shape.experts > 0


def read(path: Path) -> tuple[list[TableRow], str]:
    """The rows that are forecast, and how many of the others there are, in words."""
    found: dict[object, TableRow] = {}
    reasons: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one = _read(row)
            if isinstance(one, str):
                reasons[one] += 1
            elif found.setdefault((one.group, one.measured.load, one.measured.tpot_s), one) is not one:
                reasons["told twice"] += 1
    return list(found.values()), ", ".join(f"{count} {why}" for why, count in reasons.items())


def _read(row: dict[str, str]) -> TableRow | str:
    """Or why it is left out."""
    shape = _known(row["model_path"])
    if row["mode"] != "agg":
        return "disaggregated"
    if shape is None or _device(row) not in ACCELERATORS:
        return "of a model whose steps are not forecast"
    if row["precision"] not in FORMATS:
        return "precision not told"
    if shape.experts and not _is_one_group(row):
        return "with attention of each rank by itself"
    found = _row(row, shape)
    if room(found.measured.deployment, found.measured.load) < 1:
        return "that fit by no forecast of memory"
    return found


def _is_one_group(row: dict[str, str]) -> bool:
    """Whether all ranks share each layer, attention and experts."""
    return row.get("attention_dp_size") in (None, "", "0", "1") and _experts_apart(row) == int(row["tp_size"])


def _experts_apart(row: dict[str, str]) -> int:
    return int(row.get("moe_tp_size") or 1) * int(row.get("moe_ep_size") or 1)


def _ranks(row: dict[str, str]) -> int:
    """Where n ranks share attention and have each its own experts the table says n * n, n and n: of 130 such rows whose
    id tells the ranks, `tp8_ep8`, all are of n."""
    ranks, apart = int(row["tp_size"]), row.get("moe_ep_size") or "1"
    return int(apart) if apart == row.get("moe_tp_size") and _experts_apart(row) == ranks else ranks


def _row(row: dict[str, str], shape: ModelShape) -> TableRow:
    device, weights, engine = _device(row), FORMATS[row["precision"]], row["backend"]
    deployment = Deployment(shape, ACCELERATORS[device], weights, engine, _ranks(row), kv_bytes(engine, weights))
    load = Load(float(row["isl"]), float(row["osl"]), float(row["batch_size"]))
    ttft_ms = row.get("silicon_ttft_ms")
    measured = Measured(
        deployment, load, float(row["silicon_tpot_ms"]) / 1e3, float(ttft_ms) / 1e3 if ttft_ms else None
    )
    model = next(name for name, one in SHAPES.items() if one == shape)
    return TableRow(measured, device, model, row["precision"])


def _device(row: dict[str, str]) -> str:
    return row["system"].split("_")[0]


def _known(model_path: str) -> ModelShape | None:
    name = model_path.rsplit("/", 1)[-1].lower()
    return next((shape for beginning, shape in SHAPES.items() if name.startswith(beginning)), None)
