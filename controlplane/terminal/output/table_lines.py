"""Rows as aligned lines of text. Pure.

Guarantee: one line a row, whatever is in it; no line is wider than `width`: columns are shortened for that;
without a width nothing is cut. What a terminal would obey (control characters) is not in it.
"""

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "
LEAST = 6
"""Cells that a column keeps at least; headers of a terminal that is narrower still are cut at its edge."""
PROSE = 16
"""Cells that the last column keeps while others can give."""
CUT = "…"
_NUMBER = re.compile(r"-?[\d.,]+( ?(s|ms|µs|%|B))?")


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The header's line and one for each row; columns of numbers stand to the right."""
    cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(header))]
    if width is not None:
        widths = fitted(widths, width - len(GAP) * (len(header) - 1))
    numeric = [_is_numeric([row[column] for row in cells[1:]]) for column in range(len(header))]
    lines = []
    for row in cells:
        shown = [_padded(cell, size, right) for cell, size, right in zip(row, widths, numeric, strict=True)]
        line = GAP.join(shown).rstrip()
        lines.append(line if width is None else _cut(line, width))
    return lines


def fitted(widths: Sequence[int], total: int) -> list[int]:
    """Widths that together are at most `total`, where `LEAST` of each allows it.

    The last column, which is mostly prose, gives first; then the widest, down to one size.
    """
    over = max(0, sum(widths) - total)
    last = max(min(widths[-1], PROSE), widths[-1] - over)
    found = [*widths[:-1], last]
    most = min(max(found), max(total, LEAST))
    while most > LEAST and sum(min(one, most) for one in found) > total:
        most -= 1
    return [min(one, most) for one in found]


def one_line(text: str) -> str:
    """White space as single blanks, without control characters."""
    return " ".join("".join(one if one.isprintable() or one.isspace() else " " for one in text).split())


def _is_numeric(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if cell not in ("", "-")]
    return bool(told) and all(_NUMBER.fullmatch(cell) for cell in told)


def _padded(cell: str, size: int, right: bool) -> str:
    cell = _cut(cell, size)
    return " " * (size - cell_len(cell)) + cell if right else set_cell_size(cell, size)


def _cut(text: str, size: int) -> str:
    if cell_len(text) <= size:
        return text
    return set_cell_size(text, size - 1).rstrip() + CUT if size > 1 else CUT[:size]
