"""The spool keeps every report until it is settled, whatever dies, and never more than its limit."""

import json
from pathlib import Path

import pytest

from agents.backend import Position
from agents.spool import REFUSED_KEPT, Spool

LIMIT = 10**7


def add(spool: Spool, seq: int, body: bytes = b"metrics", traces: bytes = b"traces") -> int:
    return spool.append(lambda _: (body, traces), Position("boot", seq))


def test_reports_come_back_as_they_went_in_and_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    assert [add(spool, 10, b"a"), add(spool, 20, b"b", b"")] == [1, 2]
    again = Spool(tmp_path, LIMIT)
    assert again.waiting() == [1, 2]
    report = again.read(2)
    assert report is not None
    assert (report.metrics, report.traces, report.position) == (b"b", b"", Position("boot", 20))
    assert again.position == Position("boot", 20)


def test_position_and_ordinal_outlive_the_files(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    first, second = add(spool, 10), add(spool, 20)
    spool.acknowledge(second)
    spool.acknowledge(first)
    again = Spool(tmp_path, LIMIT)
    assert again.waiting() == []
    assert again.position == Position("boot", 20)
    assert add(again, 30) == 3


def test_a_newer_position_is_never_replaced_by_an_older_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    first, second = add(spool, 10), add(spool, 20)
    spool.refuse(second, "no")
    assert Spool(tmp_path, LIMIT).position == Position("boot", 20)
    Spool(tmp_path, LIMIT).acknowledge(first)
    assert Spool(tmp_path, LIMIT).position == Position("boot", 20)


def test_a_crash_before_the_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, LIMIT)
    add(spool, 10)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", full_disk)
        with pytest.raises(OSError, match="No space left"):
            add(spool, 20)
    assert (spool.waiting(), spool.position) == ([1], Position("boot", 10))
    (tmp_path / "000000000002.report.tmp").write_bytes(b"half")
    again = Spool(tmp_path, LIMIT)
    assert (again.waiting(), again.position) == ([1], Position("boot", 10))
    assert add(again, 20) == 2


def test_a_full_disk_can_be_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, LIMIT)
    first = add(spool, 10)
    add(spool, 20)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", full_disk)
        spool.acknowledge(first)
    assert spool.waiting() == [2]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"x" + b, lambda b: b[:-2] + b"xx"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage) -> None:
    spool = Spool(tmp_path, LIMIT)
    add(spool, 10)
    add(spool, 20)
    path = tmp_path / "000000000002.report"
    path.write_bytes(damage(path.read_bytes()))
    again = Spool(tmp_path, LIMIT)
    assert again.waiting() == [1]
    assert again.position == Position("boot", 10)
    assert again.refused == 1
    assert add(again, 20) == 3


def test_the_oldest_give_way_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 5_000)
    for seq in range(10):
        add(spool, seq, b"x" * 1_000)
    assert spool.size_bytes <= 5_000
    assert spool.dropped == 10 - spool.depth
    assert spool.waiting()[-1] == 10
    big = add(spool, 99, b"x" * 9_000)
    assert spool.waiting() == [big]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.report")) == spool.size_bytes


def test_refused_reports_are_kept_with_their_reason_up_to_a_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    for seq in range(REFUSED_KEPT + 5):
        spool.refuse(add(spool, seq), f"answered 400: {seq}")
    kept = sorted((tmp_path / "refused").glob("*.report"))
    assert len(kept) == REFUSED_KEPT
    assert kept[-1].with_suffix(".reason").read_text() == f"answered 400: {REFUSED_KEPT + 4}\n"
    assert Spool(tmp_path, LIMIT).position == Position("boot", REFUSED_KEPT + 4)


def test_a_report_that_has_gone_meanwhile_is_no_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    ordinal = add(spool, 1)
    (tmp_path / "000000000001.report").unlink()
    assert spool.read(ordinal) is None
    assert spool.waiting() == []


def test_a_damaged_state_file_is_survived(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    spool.acknowledge(add(spool, 1))
    assert json.loads((tmp_path / "state.json").read_bytes()) == {"ordinal": 1, "boot": "boot", "seq": 1}
    (tmp_path / "state.json").write_text("{")
    assert Spool(tmp_path, LIMIT).position is None
