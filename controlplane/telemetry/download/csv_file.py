"""A table as CSV (RFC 4180, UTF-8, a header line).

Guarantee: times are RFC 3339 in UTC, what is absent is empty, and a real number reads back equal.
"""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime

from controlplane.telemetry.download.table import Cell, Table

MEDIA_TYPE = "text/csv; charset=utf-8"


def chunks(table: Table) -> Iterator[bytes]:
    yield _lines([[column.name for column in table.columns]])
    for part in table.parts:
        if part:
            yield _lines([[_text(cell) for cell in row] for row in part])


def _lines(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return repr(cell) if isinstance(cell, float) else str(cell)
