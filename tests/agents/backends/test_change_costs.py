"""Costs are means over the changes that were made, and outlive the process."""

from pathlib import Path

import pytest

from agents.backends.change_costs import FILE_NAME, ChangeCosts
from controlplane.contract.knobs import ChangeClass
from tests.agents.backends.steps_made import steps


def test_means_by_class() -> None:
    costs = ChangeCosts(None)
    assert costs.told() == {}
    for took_s, unavailable_s in ((60.0, 10.0), (90.0, 0.0), (30.0, 2.0)):
        costs.record(ChangeClass.RESTART, 7, took_s, unavailable_s)
    costs.record(ChangeClass.LIVE, 7, 0.02)
    restart, live = costs.told()[ChangeClass.RESTART], costs.told()[ChangeClass.LIVE]
    assert (restart.count, restart.last_s) == (3, 30.0)
    assert restart.mean_s == pytest.approx(60.0) and restart.unavailable_s == pytest.approx(4.0)
    assert (live.count, live.last_s, live.mean_s, live.unavailable_s) == (1, 0.02, 0.02, 0.0)


def test_another_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    ChangeCosts(tmp_path / "deep").record(ChangeClass.SWAP, 7, 4.0)
    again = ChangeCosts(tmp_path / "deep")
    again.record(ChangeClass.SWAP, 7, 8.0)
    assert again.told()[ChangeClass.SWAP].count == 2
    assert again.told()[ChangeClass.SWAP].mean_s == pytest.approx(6.0)


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b'{"live": 3}', b'{"dawn": {}}'])
def test_a_damaged_file_is_no_obstacle(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    costs = ChangeCosts(tmp_path)
    assert costs.told() == {}
    costs.record(ChangeClass.LIVE, 7, 0.5)
    assert ChangeCosts(tmp_path).told()[ChangeClass.LIVE].count == 1


def test_a_folder_that_takes_no_files_costs_the_memory_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    costs = ChangeCosts(tmp_path / "file")
    costs.record(ChangeClass.LIVE, 7, 0.5)
    assert costs.told()[ChangeClass.LIVE].count == 1


def test_the_warm_up_of_the_newest_change_is_known_a_minute_later(tmp_path: Path) -> None:
    costs = ChangeCosts(tmp_path, now=lambda: 1000.0)
    costs.record(ChangeClass.SWAP, 6, 1.0)
    costs.record(ChangeClass.RESTART, 7, 90.0, 20.0)
    assert costs.told()[ChangeClass.RESTART].warm_ups == 0
    for event in steps(lambda t: 2.0 if 0 <= t < 10 else 1.0):
        costs.see(event)
    told = ChangeCosts(tmp_path).told()
    restart = told[ChangeClass.RESTART]
    assert (restart.count, restart.warm_ups, restart.warm_up_s) == (1, 1, 10.0)
    assert restart.capacity_lost_s == pytest.approx(25.0, abs=1.0), "waiting, and half of ten slow seconds"
    assert told[ChangeClass.SWAP].warm_ups == 0, "another change came before it was known"


def test_what_an_older_agent_has_kept_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"swap": {"count": 1, "last_s": 4, "mean_s": 4, "unavailable_s": 4}}')
    costs = ChangeCosts(tmp_path)
    costs.record(ChangeClass.SWAP, 7, 2.0)
    assert (costs.told()[ChangeClass.SWAP].count, costs.told()[ChangeClass.SWAP].mean_s) == (2, 3.0)
