"""How far the forecast for hardware is from a public table of measured times between tokens.

The table: `silicon_sample.csv` of github.com/ai-dynamo/aiconfigurator (Apache-2.0), or a part of it; it is read, never
kept here. Of its rows those of dense models, aggregated, whose precision is told. Errors are |forecast / measured - 1|.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.hardware.accelerators import ACCELERATORS, FORMATS, kv_bytes
from tuner.hardware.learned_pace import Measured, Pace, calibration, learned
from tuner.hardware.model_shape import ModelShape
from tuner.hardware.steady_batch import Deployment, Load

LLAMA_70B = ModelShape(80, 8192, 64, 8, 128, 28672, 128256)
LLAMA_8B = ModelShape(32, 4096, 32, 8, 128, 14336, 128256)
QWEN3_32B = ModelShape(64, 5120, 64, 8, 128, 25600, 151936)
SHAPES = {"llama-3.1-70b": LLAMA_70B, "llama-3.3-70b": LLAMA_70B, "llama-3.1-8b": LLAMA_8B, "qwen3-32b": QWEN3_32B}
"""By the beginning of a model's name: what their config.json says."""
POINTS = 3
DRAWS = 20
FEWEST = 5
"""Rows that are held out together: fewer say nothing of an accelerator."""


@dataclass(frozen=True)
class TableRow:
    """One row, and where it was measured."""

    measured: Measured
    system: str
    model: str
    precision: str

    @property
    def group(self) -> tuple[str, ...]:
        """What three points calibrate."""
        one = self.measured.deployment
        return (self.system, self.model, self.precision, one.engine, str(one.ranks))


@dataclass(frozen=True)
class Errors:
    """Of forecasts, by what was held out."""

    name: str
    values: Sequence[float]

    def line(self) -> str:
        if not len(self.values):
            return f"| {self.name} | 0 | - | - | - |"
        found = np.array(self.values)
        quantiles = (float(np.median(found)), float(found.mean()), float(np.quantile(found, 0.9)))
        return f"| {self.name} | {len(found)} | " + " | ".join(f"{100 * one:.1f} %" for one in quantiles) + " |"


def report(path: Path, seed: int) -> str:
    """The tables of one file, in Markdown, with how many rows were left out and why, and what was learned of all."""
    rows, left_out = read(path)
    lines = [f"{path.name}: {len(rows)} rows of dense models; left out: {left_out}", ""]
    lines += ["| held out | rows | median error | mean | 9 of 10 below |", "|---|---|---|---|---|"]
    lines += [one.line() for one in all_errors(rows, seed)]
    pace = learned([row.measured for row in rows])
    return "\n".join([*lines, "", "Learned of all: " + ", ".join(f"{one:.4g}" for one in pace.each)])


def all_errors(rows: Sequence[TableRow], seed: int) -> Iterator[Errors]:
    """In-sample, then held out: place by place, each accelerator, each model; calibrated by three points of a place."""
    of_all = learned([row.measured for row in rows])
    yield Errors("nothing", _errors(of_all, rows))
    yield Errors("an accelerator, model, precision, engine and width", list(_held_out(rows, lambda row: row.group)))
    systems: list[float] = []
    calibrated: list[float] = []
    before: list[float] = []
    for system in sorted({row.system for row in rows}):
        held = [row for row in rows if row.system == system]
        if len(held) < FEWEST or len(held) == len(rows):
            continue
        pace = learned([row.measured for row in rows if row.system != system])
        errors = _errors(pace, held)
        systems += errors
        yield Errors(f"accelerator {system}", errors)
        plain, scaled = _calibrated(pace, held, seed)
        before += plain
        calibrated += scaled
    yield Errors("all accelerators, one at a time", systems)
    yield Errors(f"the same, of places with more than {POINTS} rows, without points", before)
    yield Errors(f"the same, calibrated by {POINTS} points, {DRAWS} draws", calibrated)
    yield Errors("a model", list(_held_out(rows, lambda row: row.model)))


def read(path: Path) -> tuple[list[TableRow], str]:
    """The rows that are forecast, and how many of the others there are, in words."""
    found: list[TableRow] = []
    reasons = {"disaggregated": 0, "with experts or of a size that is not known here": 0, "precision not told": 0}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["mode"] != "agg":
                reasons["disaggregated"] += 1
            elif (shape := _shape(row["model_path"])) is None or row["system"].split("_")[0] not in ACCELERATORS:
                reasons["with experts or of a size that is not known here"] += 1
            elif row["precision"] not in FORMATS:
                reasons["precision not told"] += 1
            else:
                found.append(_row(row, shape))
    return found, ", ".join(f"{count} {why}" for why, count in reasons.items())


def _row(row: dict[str, str], shape: ModelShape) -> TableRow:
    device, weights, engine = row["system"].split("_")[0], FORMATS[row["precision"]], row["backend"]
    ranks = int(row["tp_size"])
    deployment = Deployment(shape, ACCELERATORS[device], weights, engine, ranks, kv_bytes(engine, weights))
    load = Load(float(row["isl"]), float(row["osl"]), float(row["batch_size"]))
    measured = Measured(deployment, load, float(row["silicon_tpot_ms"]) / 1e3)
    return TableRow(measured, device, row["model_path"], row["precision"])


def _shape(model_path: str) -> ModelShape | None:
    name = model_path.rsplit("/", 1)[-1].lower()
    return next((shape for beginning, shape in SHAPES.items() if name.startswith(beginning)), None)


def _errors(pace: Pace, rows: Sequence[TableRow], factor: float = 1.0) -> list[float]:
    measured = [row.measured for row in rows]
    return [abs(factor * pace.tpot_s(one.deployment, one.load) / one.tpot_s - 1.0) for one in measured]


def _held_out(rows: Sequence[TableRow], of: Callable[[TableRow], object]) -> Iterator[float]:
    for place in sorted({of(row) for row in rows}, key=str):
        rest = [row.measured for row in rows if of(row) != place]
        if rest:
            yield from _errors(learned(rest), [row for row in rows if of(row) == place])


def _calibrated(pace: Pace, rows: Sequence[TableRow], seed: int) -> tuple[list[float], list[float]]:
    """Of the rows that are none of the points: without them, and with."""
    random = np.random.default_rng(seed)
    before: list[float] = []
    after: list[float] = []
    for place in sorted({row.group for row in rows}):
        here = [row for row in rows if row.group == place]
        if len(here) <= POINTS:
            continue
        for _ in range(DRAWS):
            chosen = set(random.choice(len(here), POINTS, replace=False).tolist())
            factor = calibration(pace, [here[number].measured for number in chosen])
            rest = [row for number, row in enumerate(here) if number not in chosen]
            before += _errors(pace, rest)
            after += _errors(pace, rest, factor)
    return before, after
