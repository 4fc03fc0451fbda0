"""One state of the database, and what it holds of a metric.

Guarantee: all reads of a snapshot see the same committed state, so that frames and head never both hold a point.
No write lock is taken. Which level and which scope answers does not show in the answer: every level holds exactly the
sum of the finer one, and the fleet's frames that of all nodes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from controlplane.contract.metrics import NODE, MetricKind
from controlplane.telemetry.frames.block import Block
from controlplane.telemetry.frames.decoded_frames import DecodedFrames
from controlplane.telemetry.frames.frame_store import FrameStore, ReadPoint
from controlplane.telemetry.frames.gather import FLEET
from controlplane.telemetry.journal.names import Names
from controlplane.telemetry.queries.level_plan import plan
from controlplane.telemetry.queries.query import Seconds
from controlplane.telemetry.queries.unfolded import Unfolded
from controlplane.telemetry.question import Question
from controlplane.telemetry.values.timespan import Span, windows_in


@dataclass(frozen=True)
class Scan:
    """Which rows answer a question: of a metric of a kind in a span, the fleet's rows or those of nodes.

    blocks: of nodes; None is all of them. step_s: as in the question.
    """

    metric: int
    kind: MetricKind
    span: Span
    step_s: float | None
    fleet: bool
    blocks: Collection[int] | None


Piece = tuple[Seconds, Block]


def scan_of(connection: Connection, names: Names, metric: int, kind: MetricKind, question: Question) -> Scan:
    """The fleet's rows where they can answer."""
    given = question.where.get(NODE.label)
    if given is not None:
        fleet, blocks = False, names.blocks_of_nodes(connection, [given] if isinstance(given, str) else given)
    else:
        fleet, blocks = kind is not MetricKind.GAUGE and NODE.label not in question.by, None
    return Scan(metric, kind, question.span, question.step_s, fleet, blocks)


def pieces(
    moment: ReadPoint, frames: FrameStore, decoded: DecodedFrames, unfolded: Unfolded, wanted: Scan
) -> Iterator[Piece]:
    """Everything that is wanted: frames first, then what is not folded yet."""
    first, last = windows_in(wanted.span.start, wanted.span.end)
    step_s = None if wanted.step_s is None else int(wanted.step_s)
    blocks = [FLEET] if wanted.fleet else wanted.blocks
    for part in plan(moment.state.levels, first, last, step_s):
        span = (part.first, part.last)
        for frame in frames.read(moment, part.resolution, wanted.metric, blocks, *span, fleet=wanted.fleet):
            yield frame.key.window * frame.key.resolution, decoded.block(frame)
    if wanted.fleet:
        yield from unfolded.of_fleet(wanted.kind, wanted.metric)
    else:
        yield from unfolded.of_nodes(wanted.kind, wanted.metric)
