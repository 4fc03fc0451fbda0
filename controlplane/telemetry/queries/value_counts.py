"""How many values histograms hold, without their buckets (pure)."""

import numpy as np

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames.block import Block, HistogramBlock, ScalarBlock
from controlplane.telemetry.queries.grouping import Grouping, LabelsOf
from controlplane.telemetry.queries.query import ScalarSums, Seconds


class CountSums(ScalarSums):
    """The number of values of each (group, step) that has data, as of a sum. Exact up to 2**53."""

    def __init__(self, grouping: Grouping, labels_of: LabelsOf, step_s: float | None) -> None:
        super().__init__(grouping, labels_of, step_s, MetricKind.SUM)

    def add(self, seconds: Seconds, block: Block) -> None:
        assert isinstance(block, HistogramBlock)
        values = block.counts.sum(axis=1, dtype=np.int64) + block.zero
        super().add(seconds, ScalarBlock(block.labels, values.astype(float), np.zeros_like(values), MetricKind.SUM))
