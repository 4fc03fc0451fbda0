"""A table as Parquet, one row group after the other. Wants pyarrow, which is an extra of its own."""

import io
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from controlplane.contract.errors import BadRequest
from controlplane.telemetry.download.table import Kind, Row, Table

if TYPE_CHECKING:
    import pyarrow

MEDIA_TYPE = "application/vnd.apache.parquet"
MISSING = (
    "format: parquet wants pyarrow in the service's environment: pip install --require-hashes -r "
    "deploy/locks/parquet.txt in its checkout; csv needs nothing"
)
LEAST_ROWS = 2000
"""Rows are gathered to row groups of at least so many: small ones cost a reader much."""


def require() -> None:
    """Raises `BadRequest` with the mend where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise BadRequest(MISSING, field="format")


def chunks(table: Table) -> Iterator[bytes]:
    """The file's bytes; what has been given away is not kept."""
    require()
    import pyarrow
    import pyarrow.parquet

    types = {
        Kind.TIME: pyarrow.timestamp("us", tz="UTC"),
        Kind.TEXT: pyarrow.string(),
        Kind.WHOLE: pyarrow.int64(),
        Kind.REAL: pyarrow.float64(),
    }
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in table.columns], metadata=dict(table.about))
    sink = _Sink()
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        rows: list[Row] = []
        for part in table.parts:
            rows += part
            if len(rows) >= LEAST_ROWS:
                writer.write_table(_batch(rows, schema))
                rows = []
                yield sink.take()
        if rows:
            writer.write_table(_batch(rows, schema))
    yield sink.take()


def _batch(rows: list[Row], schema: "pyarrow.Schema") -> "pyarrow.Table":
    import pyarrow

    cells = list(zip(*rows, strict=True))
    return pyarrow.table(
        [pyarrow.array(column, type=field.type) for column, field in zip(cells, schema, strict=True)], schema=schema
    )


class _Sink(io.RawIOBase):
    """A file that is only written to: it knows its length, and gives away what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: "memoryview | bytes") -> int:  # type: ignore[override]
        part = bytes(data)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken

    def close(self) -> None:
        """The writer closes its sink before the last bytes are taken: they stay."""
