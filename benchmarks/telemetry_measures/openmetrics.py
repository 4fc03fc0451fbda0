"""The hour of one metric as OpenMetrics text with times, for `promtool tsdb create-blocks-from openmetrics`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.telemetry_measures.classic_buckets import LE, labels_text, prometheus_name
from benchmarks.telemetry_measures.fleet.report_bodies import node_name
from benchmarks.telemetry_measures.fleet.report_shape import BUCKETS, HISTOGRAMS, LABELS

NAME = prometheus_name(HISTOGRAMS[0].name)


def write_hour(
    file: Path,
    classic: Sequence[NDArray[np.int64]],
    totals: Sequence[NDArray[np.float64]],
    start_s: int,
    interval_s: int,
) -> None:
    """classic[interval][series, 15]: cumulative over buckets; here they are added up over time, as in a counter.

    A scrape stands at the end of each interval, and one with zeros at the start.
    """
    owners = len(classic[0])
    counts = np.concatenate([np.zeros((1, owners, len(LE)), np.int64), np.cumsum(classic, axis=0)])
    sums = np.concatenate([np.zeros((1, owners)), np.cumsum(totals, axis=0)])
    times = [start_s + interval_s * place for place in range(len(counts))]
    with file.open("w", encoding="utf-8") as text:
        text.write(f"# TYPE {NAME} histogram\n# UNIT {NAME} seconds\n")
        for owner in range(owners):
            node, bucket = divmod(owner, len(BUCKETS))
            labels = f'node="{node_name(node)}",{labels_text(LABELS[bucket])}'
            for place, le in enumerate(LE):
                le = le if le == "+Inf" else repr(float(le))
                head = f'{NAME}_bucket{{{labels},le="{le}"}} '
                text.writelines(
                    f"{head}{value} {at}\n" for value, at in zip(counts[:, owner, place].tolist(), times, strict=True)
                )
            head = f"{NAME}_sum{{{labels}}} "
            text.writelines(f"{head}{value!r} {at}\n" for value, at in zip(sums[:, owner].tolist(), times, strict=True))
            head = f"{NAME}_count{{{labels}}} "
            text.writelines(
                f"{head}{value} {at}\n" for value, at in zip(counts[:, owner, -1].tolist(), times, strict=True)
            )
        text.write("# EOF\n")
