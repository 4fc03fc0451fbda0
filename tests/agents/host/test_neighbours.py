"""Agents of one host know which processes serve the same pool."""

from collections.abc import Callable
from pathlib import Path

from agents.host.neighbours import Neighbours

Write = Callable[[str, str], None]


def live(write: Write, pid: int, cpu: int, start: int = 500) -> None:
    fields = " ".join(["S", "1", "1", "1", "0", "-1", "0", "0", "0", "0", "0", str(cpu), "0", "0", "0", "20"])
    write(f"proc/{pid}/stat", f"{pid} (x) {fields} 0 1 0 {start} 0 0")


def pair(tmp_path: Path, proc: Path, pools: tuple[str | None, str | None]) -> tuple[Neighbours, Neighbours]:
    folder = tmp_path / "neighbours"
    return Neighbours(folder, pools[0], proc, agent_pid=1), Neighbours(folder, pools[1], proc, agent_pid=2)


def test_an_engine_of_the_same_pool_is_of_the_fleet(tmp_path: Path, proc: Path, write: Write) -> None:
    for pid, cpu in ((1, 3), (2, 5), (10, 100), (20, 200)):
        live(write, pid, cpu)
    first, second = pair(tmp_path, proc, ("chat", "chat"))
    first.tell([(10, 500)])
    second.tell([(20, 500)])
    assert first.of_the_fleet() == {(1, 500): 3, (2, 500): 5, (20, 500): 200}
    assert second.of_the_fleet() == {(1, 500): 3, (2, 500): 5, (10, 500): 100}
    second.leave()
    assert first.of_the_fleet() == {(1, 500): 3}


def test_trial_engines_and_other_pools_are_others(tmp_path: Path, proc: Path, write: Write) -> None:
    for pid in (1, 2, 20):
        live(write, pid, 7)
    for pools in (("chat", None), (None, None), ("chat", "code")):
        first, second = pair(tmp_path, proc, pools)
        second.tell([(20, 500)])
        assert first.of_the_fleet().keys() == {(1, 500), (2, 500)}


def test_a_number_that_is_another_process_now_serves_nothing(tmp_path: Path, proc: Path, write: Write) -> None:
    for pid in (1, 2, 20):
        live(write, pid, 7)
    first, second = pair(tmp_path, proc, ("chat", "chat"))
    second.tell([(20, 500)])
    live(write, 20, 9, start=900)
    assert (20, 900) not in first.of_the_fleet()
    live(write, 2, 9, start=900)  # The agent was killed, and its number used again.
    assert first.of_the_fleet() == {(1, 500): 7}
    assert not (tmp_path / "neighbours/2.json").exists()


def test_what_is_no_entry_names_nobody(tmp_path: Path, proc: Path, write: Write) -> None:
    live(write, 1, 7)
    first, _ = pair(tmp_path, proc, ("chat", "chat"))
    for name, text in (("8", "{"), ("9", "[]"), ("10", '{"agent": "x"}')):
        write(f"neighbours/{name}.json", text)
    assert first.of_the_fleet() == {(1, 500): 7}
