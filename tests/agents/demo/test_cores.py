"""How many cores the demo counts on, and what it says of fewer than two."""

import os
from pathlib import Path

import pytest

from agents.demo.cores import cores, idle_cores, warning


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


def test_what_others_leave_is_the_idle_time_of_the_cores_that_it_may_use(tmp_path: Path) -> None:
    mine = sorted(os.sched_getaffinity(0))
    stat = tmp_path / "stat"

    def write(*idle: int) -> None:
        cores = [f"cpu{number} {100 - ticks} 0 0 {ticks} 0 0 0 0 0 0" for number, ticks in zip(mine, idle, strict=True)]
        stat.write_text("\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *cores, "cpu9999 0 0 0 70 0 0 0 0 0 0", "ctxt 1"]))

    write(*[0] * len(mine))
    before = stat.read_text()

    def second(_: float) -> None:
        rows = [line.split() for line in before.splitlines()]
        busy = {f"cpu{number}": place == 0 for place, number in enumerate(mine)}
        lines = []
        for name, *ticks in rows:
            if name in busy:  # The first is used for the whole second, of the others a quarter each.
                used = 100 if busy[name] else 25
                ticks = [str(int(ticks[0]) + used), *ticks[1:3], str(int(ticks[3]) + 100 - used), *ticks[4:]]
            lines.append(" ".join([name, *ticks]))
        stat.write_text("\n".join(lines))

    assert idle_cores(stat, second) == pytest.approx(0.75 * (len(mine) - 1))


def test_one_core_is_told_of_first_and_two_are_not() -> None:
    assert "1 of a core's time" in warning(1.0) and "twice" in warning(1.0)
    assert warning(2.0) == ""
