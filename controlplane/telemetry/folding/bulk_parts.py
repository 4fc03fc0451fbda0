"""Bundles as they are read: parts of several reports each, and the rows of many parts as one batch (pure).

Guarantee: a bundle that does not read is one of the contract's errors, and nothing of it is used. A row that cannot be
kept is in the refusals of its own part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.packed_report import digest_of
from controlplane.contract.reports.report_bundle import LIMIT_PLAIN, unbundle
from controlplane.telemetry.journal import content_encoding
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.reports import packed
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.packed import Packed
from controlplane.telemetry.reports.packed_table import PackedTables
from controlplane.telemetry.reports.stream_identity import Recognised, Sighting, StreamIdentity
from controlplane.telemetry.values.batch import Batch
from controlplane.telemetry.values.refusal import Refusals

NEW = Recognised(Sighting.NEW, 0)


@dataclass(eq=False)
class Part:
    """Reports with one stream and ordinal: they count together. `entry` is what became of them."""

    identity: StreamIdentity
    entry: Entry
    reports: list[Packed] = field(default_factory=list)
    rows: int = 0
    seen: Recognised = NEW

    def add(self, report: Packed) -> None:
        """One more report; its digest becomes part of what the whole says."""
        self.identity = self.identity._replace(digest=digest_of(self.identity.digest + report.identity.digest))
        self.reports.append(report)
        self.rows += report.rows

    @property
    def keeps_some(self) -> bool:
        """Else its place in its stream is not taken, so that it may be sent again when its mistake is mended."""
        return not self.rows or self.entry.refusals.count < self.rows


@dataclass(eq=False)
class Loaded:
    """What became of a bundle."""

    parts: Sequence[Part]
    nbytes: int


def read_bundle(body: bytes, encoding: str, bounds: Bounds, tables: PackedTables) -> Loaded:
    """A bundle as it was sent. Raises `BadRequest`, `TooLarge`, `Unsupported`."""
    plain = content_encoding.decompress(body, encoding, LIMIT_PLAIN)
    try:
        bodies = unbundle(plain)
    except ValueError as error:
        raise BadRequest(f"body: {error}", field="body") from error
    parts: list[Part] = []
    for one in bodies:
        report = packed.split(one, tables, bounds.sender.node)
        if parts and parts[-1].identity[:2] == report.identity[:2]:
            parts[-1].add(report)
        else:
            parts.append(Part(report.identity, Entry(bounds=bounds), [report], report.rows))
    return Loaded(parts, len(plain))


def rows_of(parts: Sequence[Part]) -> Batch:
    """What of the parts can be kept; owners are their places. What cannot be is in the parts' refusals, anew."""
    for part in parts:
        part.entry.refusals, part.entry.silent = Refusals(), 0
    reports = [(place, report) for place, part in enumerate(parts) for report in part.reports]
    entries = [parts[place].entry for place, _ in reports]
    found = packed.read(
        [report for _, report in reports], [entry.bounds for entry in entries], [entry.refusals for entry in entries]
    )
    for entry, silent in zip(entries, found.silent.tolist(), strict=True):
        entry.silent += silent
    return found.batch.owned_by(np.array([place for place, _ in reports], np.int32))
