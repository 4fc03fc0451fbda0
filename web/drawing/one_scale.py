"""Heat maps on one scale: the same rows, so that a colour at a height means the same in each of them.

Pure. Guarantee: no count is lost or moved to another latency: all rows are of the API's one fixed axis, and finer ones
are summed to the coarsest that any of the answers has.
"""

import math
from collections.abc import Sequence
from itertools import compress

from controlplane.contract.bodies.telemetry import HeatmapAnswer


def on_one_scale(answers: Sequence[HeatmapAnswer]) -> list[HeatmapAnswer]:
    """The same counts under the same edges. An answer of no data has them too, if another has any."""
    told = [one for one in answers if one.edges]
    if not told:
        return list(answers)
    per_doubling = min(one.rows_per_doubling for one in told)
    placed = [_rows_of(one, per_doubling) for one in answers]
    whole = sorted({row for rows in placed for row in rows if row is not None})
    below: list[int | None] = [None] if any(None in rows for rows in placed) else []
    rows = [*below, *range(whole[0], whole[-1] + 1)]
    edges = [0.0] * len(below) + [2.0 ** (row / per_doubling) for row in range(whole[0], whole[-1] + 2)]
    place = {row: at for at, row in enumerate(rows)}
    return [
        _moved(one, per_doubling, edges, [place[row] for row in of]) for one, of in zip(answers, placed, strict=True)
    ]


def _rows_of(answer: HeatmapAnswer, per_doubling: int) -> list[int | None]:
    """Where each row of an answer lies, in rows of the axis of which so many are a doubling, counted from one second;
    None for what is too small for the axis."""
    if not answer.edges:
        return []
    below = answer.edges[0] == 0.0
    first = round(math.log2(answer.edges[below]) * answer.rows_per_doubling)
    merged = answer.rows_per_doubling // per_doubling
    rows: list[int | None] = [(first + at) // merged for at in range(len(answer.edges) - 1 - below)]
    return [None, *rows] if below else rows


def _moved(answer: HeatmapAnswer, per_doubling: int, edges: list[float], places: Sequence[int]) -> HeatmapAnswer:
    def counts(told: Sequence[int]) -> list[int]:
        found = [0] * (len(edges) - 1)
        for at, count in compress(zip(places, told, strict=True), told):
            found[at] += count
        return found

    series = [
        one.model_copy(
            update={"columns": [column.model_copy(update={"counts": counts(column.counts)}) for column in one.columns]}
        )
        for one in answer.series
    ]
    return answer.model_copy(update={"rows_per_doubling": per_doubling, "edges": edges, "series": series})
