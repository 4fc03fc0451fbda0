"""The spool keeps every report until it is settled, whatever dies, and never more than its limit."""

import json
from pathlib import Path

import pytest

from agents.agent.delivery.spool import REFUSED_KEPT, Slot, Spool
from agents.agent.delivery.spool_state import Owner
from agents.agent.reports.body import Body
from agents.backends.base import Position
from agents.host.durable_file import write_durably

LIMIT = 10**7


def add(spool: Spool, seq: int, body: bytes = b"metrics", traces: bytes = b"traces") -> int:
    return spool.append(lambda _: (Body(body), Body(traces) if traces else None), Position("boot", seq))


def add_and_tell(spool: Spool, seq: int, size: int = 1_000) -> Slot:
    """Add one report; what the spool told it."""
    told: list[Slot] = []

    def encode(slot: Slot) -> tuple[Body, None]:
        told.append(slot)
        return Body(b"x" * size), None

    spool.append(encode, Position("boot", seq))
    return told[-1]


def identity(spool: Spool, ordinal: int) -> str | None:
    report = spool.read(ordinal)
    assert report is not None
    return report.identity


def test_reports_come_back_as_they_went_in_and_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    assert [add(spool, 10, b"a"), add(spool, 20, b"b", b"")] == [1, 2]
    again = Spool(tmp_path, LIMIT)
    assert again.waiting() == [1, 2]
    report = again.read(2)
    assert report is not None
    assert (report.metrics.content, report.traces, report.position) == (b"b", None, Position("boot", 20))
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


def test_half_written_reports_of_a_crash_are_swept_away(tmp_path: Path) -> None:
    add(Spool(tmp_path, LIMIT), 1)
    half = tmp_path / "00000000000000000002.report.tmp"
    half.write_bytes(b"half")
    Spool(tmp_path, LIMIT)
    assert not half.exists() and list(tmp_path.glob("*.tmp")) == []


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


@pytest.mark.slow
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
    state = json.loads((tmp_path / "state.json").read_bytes())
    assert state == {"node": "", "machine": "", "ordinal": 1, "boot": "boot", "seq": 1}
    for damage in ("{", "[]", '{"ordinal": 1, "node": 3}', '{"ordinal": "xy"}', '{"node": ""}'):
        (tmp_path / "state.json").write_text(damage)
        assert Spool(tmp_path, LIMIT).position is None


# -- who a report is ---------------------------------------------------------------------------------------------------


def test_a_stream_is_one_processs_and_old_files_keep_theirs(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    stream = add_and_tell(spool, 10).stream
    assert add_and_tell(spool, 20) == Slot(stream, 2, 0)
    again = Spool(tmp_path, LIMIT)
    slot = add_and_tell(again, 30)
    assert slot.stream != stream and slot.ordinal == 3
    assert [identity(again, ordinal) for ordinal in (2, 3)] == [f"{stream.hex()}/2", f"{slot.stream.hex()}/3"]
    told = [again.read(ordinal) for ordinal in (2, 3)]
    assert [again.is_own(report) for report in told if report is not None] == [False, True]


def test_two_spools_are_two_streams(tmp_path: Path) -> None:
    streams = {add_and_tell(Spool(tmp_path / name, LIMIT), 1).stream for name in "abc"}
    assert len(streams) == 3


def test_no_report_is_written_before_its_owner_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, LIMIT)
    names: list[str] = []

    def full(path: Path, *parts: bytes) -> None:
        names.append(path.name)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agents.agent.delivery.spool.write_durably", full)
        patch.setattr("agents.agent.delivery.spool_state.write_durably", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                add(spool, 10)
    assert names == ["state.json"] * 2
    assert add(spool, 10) == 1


@pytest.mark.parametrize("loss", ["gone", "damaged"])
def test_a_lost_state_uses_no_name_again_and_old_files_keep_theirs(tmp_path: Path, loss: str) -> None:
    spool = Spool(tmp_path, LIMIT)
    for seq in (10, 20, 30):
        add(spool, seq)
    before = identity(spool, 1)
    spool.acknowledge(3)  # Nothing but the state says that 3 was used.
    if loss == "gone":
        (tmp_path / "state.json").unlink()
    else:
        (tmp_path / "state.json").write_text("nonsense")
    again = Spool(tmp_path, LIMIT)
    slot = add_and_tell(again, 40)
    assert slot.ordinal == 3 and slot.stream.hex() not in (before or "")
    assert identity(again, 1) == before


def test_the_state_of_an_earlier_agent_is_taken_over(tmp_path: Path) -> None:
    write_durably(tmp_path / "state.json", json.dumps({"ordinal": 41, "boot": "b", "seq": 9}).encode())
    spool = Spool(tmp_path, LIMIT)
    assert spool.position == Position("b", 9)
    slot = add_and_tell(spool, 10)
    assert slot.ordinal == 42 and len(slot.stream) == 16
    (tmp_path / "000000000042.report").unlink()
    assert Spool(tmp_path, LIMIT).position == Position("b", 9)


# -- what is lost is told ----------------------------------------------------------------------------------------------


def test_a_report_tells_of_those_that_gave_way_to_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 5_000)
    told = [add_and_tell(spool, seq).dropped for seq in range(12)]
    assert told[: told.index(1)] == [0] * told.index(1)
    told_by_kept = []
    for ordinal in spool.waiting():
        report = spool.read(ordinal)
        assert report is not None
        told_by_kept.append(report.dropped)
    # Those that told of some are lost themselves by now; all are told of by the reports that are left.
    assert sum(told_by_kept) == spool.dropped == 12 - spool.depth > 4


def test_what_was_lost_elsewhere_or_told_in_vain_is_told_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    spool.note_lost(3)
    assert [add_and_tell(spool, 1).dropped, add_and_tell(spool, 2).dropped] == [3, 0]
    spool.refuse(1, "no")
    assert add_and_tell(spool, 3).dropped == 3
    assert spool.dropped == 3


def test_a_report_that_cannot_be_stored_has_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, LIMIT)
    add(spool, 1)
    spool.note_lost(2)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", full_disk)
        with pytest.raises(OSError, match="No space left"):
            add_and_tell(spool, 2)
    assert add_and_tell(spool, 2).dropped == 2


def test_a_power_cut_brings_back_no_more_files_than_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.agent.delivery.spool.UNSYNCED", 8)
    spool = Spool(tmp_path, LIMIT)
    for seq in range(20):
        add(spool, seq, b"x", b"")
    since: list[int] = []
    monkeypatch.setattr("agents.agent.delivery.spool.sync_folder", lambda _: since.append(len(spool.waiting())))
    for ordinal in spool.waiting()[:-1]:
        spool.acknowledge(ordinal)
    assert since == [12, 4]


def test_a_report_that_cannot_be_read_gives_way_as_one_lost_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 4_000)
    oldest = add(spool, 10, b"x" * 1_500)
    (tmp_path / f"{oldest:012d}.report").write_bytes(b"damaged")
    assert add_and_tell(spool, 20, 3_500).dropped == 1


# -- copied, moved, put back -------------------------------------------------------------------------------------------


def test_the_folder_of_another_node_is_its_own_to_send(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = Spool(tmp_path, LIMIT, Owner("n1", "m"))
    add(first, 10)
    add(first, 20)
    first.note_lost(3)
    add(first, 30)
    for _ in range(2):  # Nothing is claimed before there is a report.
        other = Spool(tmp_path, LIMIT, Owner("n2", "m"))
        assert (other.waiting(), other.position) == ([], Position("boot", 30))
    assert "was last of node 'n1' on machine m and is of node 'n2' on machine m now" in caplog.text
    assert "3 reports of node 'n1' on machine m are set aside" in caplog.text
    assert len(list((tmp_path / "foreign").glob("*.report"))) == 3
    assert add_and_tell(other, 40).ordinal == 4
    assert json.loads((tmp_path / "state.json").read_bytes())["node"] == "n2"
    assert Spool(tmp_path, LIMIT, Owner("n2", "m")).waiting() == [4]


def test_another_machine_sends_what_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    add(Spool(tmp_path, LIMIT, Owner("n1", "m")), 10)
    moved = Spool(tmp_path, LIMIT, Owner("n1", "other"))
    assert moved.waiting() == [1] and "copied, or moved" in caplog.text
    add(moved, 20)
    assert json.loads((tmp_path / "state.json").read_bytes())["machine"] == "other"


def test_an_owner_is_the_node_and_what_the_machine_calls_itself(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    assert Owner.here("n1", file) == Owner("n1", "")
    file.write_text("0123\n")
    assert Owner.here("n1", file) == Owner("n1", "0123")
    file.write_bytes(b"\xff")
    assert Owner.here("n1", file) == Owner("n1", "")
