"""Costs are means over the changes that were made, and outlive the process."""

from pathlib import Path

import pytest

from agents.backends.change_costs import FILE_NAME, ChangeCosts
from controlplane.contract.knobs import ChangeClass


def test_means_by_class() -> None:
    costs = ChangeCosts(None)
    assert costs.told() == {}
    for took_s, unavailable_s in ((60.0, 10.0), (90.0, 0.0), (30.0, 2.0)):
        costs.record(ChangeClass.RESTART, took_s, unavailable_s)
    costs.record(ChangeClass.LIVE, 0.02)
    restart, live = costs.told()[ChangeClass.RESTART], costs.told()[ChangeClass.LIVE]
    assert (restart.count, restart.last_s) == (3, 30.0)
    assert restart.mean_s == pytest.approx(60.0) and restart.unavailable_s == pytest.approx(4.0)
    assert (live.count, live.last_s, live.mean_s, live.unavailable_s) == (1, 0.02, 0.02, 0.0)


def test_another_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    ChangeCosts(tmp_path / "deep").record(ChangeClass.SWAP, 4.0)
    again = ChangeCosts(tmp_path / "deep")
    again.record(ChangeClass.SWAP, 8.0)
    assert again.told()[ChangeClass.SWAP].count == 2
    assert again.told()[ChangeClass.SWAP].mean_s == pytest.approx(6.0)


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b'{"live": 3}', b'{"dawn": {}}'])
def test_a_damaged_file_is_no_obstacle(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    costs = ChangeCosts(tmp_path)
    assert costs.told() == {}
    costs.record(ChangeClass.LIVE, 0.5)
    assert ChangeCosts(tmp_path).told()[ChangeClass.LIVE].count == 1


def test_a_folder_that_takes_no_files_costs_the_memory_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    costs = ChangeCosts(tmp_path / "file")
    costs.record(ChangeClass.LIVE, 0.5)
    assert costs.told()[ChangeClass.LIVE].count == 1
