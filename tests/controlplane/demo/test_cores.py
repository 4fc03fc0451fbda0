"""How many cores the demo counts on, and what it says of fewer than two."""

import os
from pathlib import Path

import pytest

from controlplane.demo.cores import cores, warning


@pytest.mark.parametrize(
    ("text", "quota"), [("50000 100000\n", 0.5), ("150000 100000\n", 1.5), ("max 100000\n", None), ("?\n", None)]
)
def test_a_quota_of_the_control_group_counts_where_it_is_the_smaller(
    tmp_path: Path, text: str, quota: float | None
) -> None:
    (tmp_path / "cpu.max").write_text(text)
    available = len(os.sched_getaffinity(0))
    assert cores(tmp_path / "cpu.max") == (available if quota is None else min(available, quota))


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert cores(tmp_path / "cpu.max") == len(os.sched_getaffinity(0))


def test_one_core_is_told_of_first_and_two_are_not() -> None:
    assert "1 of a core's time" in warning(1.0) and "twice" in warning(1.0)
    assert warning(2.0) == ""
