"""How far the forecast for hardware is from a public table of measured serving (`table_rows.py`).

Errors are |forecast / measured - 1|. Factors of dense models are learned of dense rows, those of models with experts
of all rows; what is held out is seen by neither.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.twin_measures.learned_factors import learned, learned_first
from benchmarks.twin_measures.table_rows import TableRow, read
from controlplane.hardware.learned_pace import FirstToken, Pace, calibration
from controlplane.hardware.steady_batch import room

POINTS = 3
DRAWS = 20
FEWEST = 5
"""Rows that are held out together: fewer say nothing of an accelerator."""
Rows = Sequence[TableRow]
Forecast = Callable[[TableRow], float]
"""Forecast over measured, of a row."""
Learn = Callable[[Rows], Forecast]


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
    dense = [row for row in rows if not row.has_experts]
    lines = [
        f"{path.name}: {len(dense)} rows of dense models, {len(rows) - len(dense)} with experts; left out: {left_out}"
    ]
    for what, errors in (
        ("time between tokens, dense", all_errors(dense, seed)),
        ("time between tokens, with experts", expert_errors(rows, seed)),
        ("time to first token, dense", first_token_errors(dense, seed)),
        ("time to first token, with experts", first_token_errors(rows, seed, of=lambda row: row.has_experts)),
    ):
        lines += ["", f"| {what}; held out | rows | median error | mean | 9 of 10 below |", "|---|---|---|---|---|"]
        lines += [one.line() for one in errors]
    for name, some in (("dense rows", dense), ("all", rows)):
        pace = learned([row.measured for row in some])
        first = learned_first(pace, [row.measured for row in some])
        factors = ", ".join(f"{one:.4g}" for one in pace.each)
        lines += [
            "",
            f"Learned of {name}: {factors}; first token {first.prompt:.4g}, {first.beside_s:.4g}, {first.together:.4g}",
        ]
    return "\n".join(lines)


def all_errors(rows: Rows, seed: int) -> Iterator[Errors]:
    """In-sample, then held out: place by place, each accelerator, each model; calibrated by three points of a place."""
    yield Errors("nothing", _of(_between(rows), rows))
    yield Errors(
        "an accelerator, model, precision, engine and width", list(_held_out(_between, rows, lambda row: row.group))
    )
    yield from _accelerators(_between, rows, rows, seed)
    yield Errors("a model", list(_held_out(_between, rows, lambda row: row.model)))
    yield _models_calibrated(_between, rows, rows, seed)


def expert_errors(rows: Rows, seed: int) -> Iterator[Errors]:
    """Of the rows with experts, learned of all that are not held out."""
    held = [row for row in rows if row.has_experts]
    yield Errors("nothing", _of(_between(rows), held))
    yield from _accelerators(_between, rows, held, seed)
    for model in sorted({row.model for row in held}):
        rest = [row for row in rows if row.model != model]
        yield Errors(f"model {model}", _of(_between(rest), [row for row in held if row.model == model]))
    yield Errors("a model", list(_held_out(_between, rows, lambda row: row.model, held)))
    both = list(_held_out(_between, rows, lambda row: (row.model, row.system), held))
    yield Errors("a model on an accelerator", both)


def first_token_errors(rows: Rows, seed: int, of: Callable[[TableRow], bool] = lambda _: True) -> Iterator[Errors]:
    """Of rows that had room for all that were under way; by engine, too, with each accelerator held out in turn."""
    told = [row for row in rows if row.measured.ttft_s is not None and _has_room(row)]
    held = [row for row in told if of(row)]
    if not held:
        return
    yield Errors("nothing", _of(_first(told), held))
    yield from _accelerators(_first, told, held, seed)
    for engine in sorted({row.measured.deployment.engine for row in held}):
        own = [row for row in held if row.measured.deployment.engine == engine]
        yield Errors(f"an accelerator, rows of {engine}", list(_held_out(_first, told, lambda row: row.system, own)))
    yield Errors("a model", list(_held_out(_first, told, lambda row: row.model, held)))
    yield _models_calibrated(_first, told, held, seed)


def _between(rows: Rows) -> Forecast:
    pace = learned([row.measured for row in rows])
    return lambda row: pace.tpot_s(row.measured.deployment, row.measured.load) / row.measured.tpot_s


def _first(rows: Rows) -> Forecast:
    pace = learned([row.measured for row in rows])
    first = learned_first(pace, [row.measured for row in rows])
    return lambda row: _first_ratio(pace, first, row)


def _first_ratio(pace: Pace, first: FirstToken, row: TableRow) -> float:
    one = row.measured
    return first.measured_s(pace, one.deployment, one.load) / (one.ttft_s or np.nan)


def _has_room(row: TableRow) -> bool:
    return room(row.measured.deployment, row.measured.load) >= row.measured.load.concurrency


def _of(forecast: Forecast, rows: Rows, factor: float = 1.0) -> list[float]:
    return [abs(factor * forecast(row) - 1.0) for row in rows]


def _held_out(learn: Learn, rows: Rows, of: Callable[[TableRow], object], held: Rows | None = None) -> Iterator[float]:
    held = rows if held is None else held
    for place in sorted({of(row) for row in held}, key=str):
        rest = [row for row in rows if of(row) != place]
        if rest:
            yield from _of(learn(rest), [row for row in held if of(row) == place])


def _accelerators(learn: Learn, rows: Rows, among: Rows, seed: int) -> Iterator[Errors]:
    """Each held out, learned of all other rows; then all of them together, and calibrated by points of each place."""
    systems: list[float] = []
    calibrated: list[float] = []
    before: list[float] = []
    for system in sorted({row.system for row in among}):
        held = [row for row in among if row.system == system]
        rest = [row for row in rows if row.system != system]
        if len(held) < FEWEST or not rest:
            continue
        forecast = learn(rest)
        errors = _of(forecast, held)
        systems += errors
        yield Errors(f"accelerator {system}", errors)
        plain, scaled = _calibrated(forecast, held, seed)
        before += plain
        calibrated += scaled
    yield Errors("all accelerators, one at a time", systems)
    yield Errors(f"the same, of places with more than {POINTS} rows, without points", before)
    yield Errors(f"the same, calibrated by {POINTS} points, {DRAWS} draws", calibrated)


def _models_calibrated(learn: Learn, rows: Rows, among: Rows, seed: int) -> Errors:
    """Each model held out, calibrated by points of each place."""
    errors: list[float] = []
    for model in sorted({row.model for row in among}):
        rest = [row for row in rows if row.model != model]
        if rest:
            errors += _calibrated(learn(rest), [row for row in among if row.model == model], seed)[1]
    return Errors(f"a model, calibrated by {POINTS} points, {DRAWS} draws", errors)


def _calibrated(forecast: Forecast, rows: Rows, seed: int) -> tuple[list[float], list[float]]:
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
            factor = calibration([1.0 / forecast(here[number]) for number in chosen])
            rest = [row for number, row in enumerate(here) if number not in chosen]
            before += _of(forecast, rest)
            after += _of(forecast, rest, factor)
    return before, after
