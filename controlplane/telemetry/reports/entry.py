"""One request's data on its way to the disk, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.contract.errors import TailwrightError
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.reports.cumulative_rows import CumulativePoint
from controlplane.telemetry.reports.exemplar import Exemplar
from controlplane.telemetry.reports.packed import Packed
from controlplane.telemetry.reports.records import Record
from controlplane.telemetry.reports.repeat import PointIdentities
from controlplane.telemetry.reports.stream_identity import StreamIdentity
from controlplane.telemetry.values.columns import Columns, Table
from controlplane.telemetry.values.refusal import Outcome, Refusals

NO_NAMES = Table((), ())
NO_COLUMNS = Columns.empty()
NO_BOUNDS = Bounds(0, (1 << 63) - 1)


@dataclass(eq=False)
class Entry:
    """`columns` with places in `table`, or a packed body whose rows are not read yet (`packed`, with its `bounds`).

    silent: points that say nothing, and are accepted as such; kept_from_ns: see `cumulative_rows.advance_all`.
    The last part is filled in by `journal`, anew for each attempt, until `settle`.
    """

    table: Table = NO_NAMES
    columns: Columns = NO_COLUMNS
    identity: StreamIdentity | PointIdentities | None = None
    records: Sequence[Record] = ()
    exemplars: Sequence[Exemplar] = ()
    cumulative: Sequence[CumulativePoint] = ()
    refusals: Refusals = field(default_factory=Refusals)
    silent: int = 0
    kept_from_ns: int = 0
    packed: Packed | None = None
    bounds: Bounds = NO_BOUNDS

    accepted: int = 0
    repeated: int = 0
    late: Refusals = field(default_factory=Refusals)
    error: TailwrightError | None = None

    @property
    def stream(self) -> StreamIdentity | None:
        if self.packed is not None:
            return self.packed.identity
        return self.identity if isinstance(self.identity, StreamIdentity) else None

    @property
    def refused_as_a_whole(self) -> bool:
        """Nothing of it can be kept, so that its place in its stream is not taken."""
        return self.packed is not None and 0 < self.packed.rows == self.late.count

    @property
    def items(self) -> int:
        """Points and records."""
        if self.packed is not None:
            return self.packed.rows
        return len(self.columns) + len(self.records) + len(self.cumulative)

    @property
    def nbytes(self) -> int:
        """About what it holds in memory."""
        if self.packed is not None:
            return len(self.packed.body)
        return 256 * (len(self.columns) + len(self.cumulative)) + 1024 * len(self.records)

    def begin(self) -> None:
        """A new attempt."""
        self.accepted, self.repeated, self.error = 0, 0, None
        if self.late.any:
            self.late = Refusals()

    def settle(self) -> None:
        """It is on the disk: what was refused in writing joins what was refused in reading."""
        if self.late.any:
            self.refusals.merge(self.late)
            self.late = Refusals()

    def outcome(self) -> Outcome:
        return Outcome(self.accepted, self.repeated, self.refusals)
