"""Columns compared, field by field."""

from dataclasses import fields

import numpy as np

from controlplane.telemetry.values.columns import Columns


def assert_same(found: Columns, expected: Columns) -> None:
    for kind in ("histograms", "sums", "gauges"):
        mine, theirs = getattr(found, kind), getattr(expected, kind)
        for column in fields(theirs):
            np.testing.assert_array_equal(
                getattr(mine, column.name), getattr(theirs, column.name), err_msg=f"{kind}.{column.name}"
            )
