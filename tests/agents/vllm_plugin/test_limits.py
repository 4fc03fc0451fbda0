"""The live limits: in force in the very step, told truthfully, and never lost to a bad file."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tailwright_vllm.knob_file import LARGEST_FILE_BYTES
from tailwright_vllm.limits import Limits

from tests.agents.vllm_plugin.vllm_trees import Scheduler, config_of


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _limits(folder: Path, clock: Clock | None = None, drafts: int = 4, **scheduler: Any) -> tuple[Any, Limits]:
    made = Scheduler(config_of(drafts, **scheduler))
    return made, Limits(made, folder, clock=clock or Clock())


def _want(folder: Path, knobs: Any, revision: int = 1, **more: Any) -> None:
    scratch = folder / "new"
    scratch.write_text(json.dumps({"revision": revision, "knobs": knobs, **more}))
    os.replace(scratch, folder / "knobs.json")


def _told(folder: Path, limits: Limits) -> dict[str, Any]:
    limits.write()
    told: dict[str, Any] = json.loads((folder / "effective.json").read_bytes())
    return told


def test_a_file_replaced_before_a_step_is_in_force_in_that_step(tmp_path: Path) -> None:
    scheduler, limits = _limits(tmp_path)
    limits.begin_step()
    assert scheduler.schedule() == (1024, 0, 8)
    _want(tmp_path, {"max_num_batched_tokens": 64, "prefill_chunk_size": 32, "max_num_seqs": 2})
    limits.begin_step()  # No thread runs here: the step itself has looked.
    assert scheduler.schedule() == (64, 32, 2)


def test_a_file_that_is_there_at_the_start_is_in_force_from_the_first_step(tmp_path: Path) -> None:
    _want(tmp_path, {"max_num_seqs": 3}, revision=8)
    scheduler, limits = _limits(tmp_path)
    assert scheduler.max_num_active_reqs == 3
    assert _told(tmp_path, limits)["revision"] == 8


def test_the_steps_that_began_after_the_agents_receipt_are_counted(tmp_path: Path, clock: Clock) -> None:
    _, limits = _limits(tmp_path, clock)
    for clock.now in (101.0, 102.0, 103.0, 104.0):
        limits.begin_step()
    _want(tmp_path, {"max_num_seqs": 3}, asked=102.5)
    clock.now = 105.0
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert (told["asked"], told["steps_waited"]) == (102.5, 2)  # Those at 103 and 104; the one at 105 runs it.
    _want(tmp_path, {"max_num_seqs": 4}, asked=105.5)
    limits.begin_step()
    assert _told(tmp_path, limits)["steps_waited"] == 0
    _want(tmp_path, {"max_num_seqs": 5})
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert (told["asked"], told["steps_waited"]) == (None, None)


def test_the_history_tells_when_each_revision_came_into_force(tmp_path: Path, clock: Clock) -> None:
    _, limits = _limits(tmp_path, clock)
    for clock.now, revision in ((110.0, 5), (120.0, 5), (130.0, 3)):
        _want(tmp_path, {"max_num_seqs": int(clock.now) % 7 + 1}, revision)
        limits.begin_step()
    told = _told(tmp_path, limits)
    assert told["history"] == [[100.0, 0], [110.0, 5], [130.0, 3]]
    assert (told["revision"], told["since"], told["time"]) == (3, 130.0, 130.0)


def test_values_are_read_back_from_the_scheduler_not_echoed(tmp_path: Path) -> None:
    scheduler, limits = _limits(tmp_path)
    _want(tmp_path, {"max_num_batched_tokens": 99999, "prefill_chunk_size": 2, "num_speculative_tokens": [[2, 9]]})
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert told["knobs"] == {
        "max_num_batched_tokens": 1024,
        "prefill_chunk_size": 5,
        "max_num_seqs": 8,
        "num_speculative_tokens": [[2, 4]],
    }
    assert told["clamped"] == {
        "max_num_batched_tokens": 99999,
        "prefill_chunk_size": 2,
        "num_speculative_tokens": [[2, 9]],
    }
    assert scheduler.dynamic_sd_lookup == [4, 4, 4, 0, 0, 0, 0, 0, 0]
    scheduler.max_num_active_reqs = 6  # Somebody else moved it.
    _want(tmp_path, {})
    limits.begin_step()
    assert _told(tmp_path, limits)["knobs"]["max_num_seqs"] == 6


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.write_bytes(b" " * (LARGEST_FILE_BYTES + 1))


def _loop(path: Path) -> None:
    path.symlink_to(path.name)  # Neither stat nor open can follow it.


def _unreadable(path: Path) -> None:
    path.write_text("{}")
    path.chmod(0)


@pytest.mark.parametrize("spoil", [_directory, _pipe, _huge, _loop, _unreadable])
def test_what_is_no_readable_file_changes_nothing_and_is_told(tmp_path: Path, spoil: Any) -> None:
    scheduler, limits = _limits(tmp_path)
    _want(tmp_path, {"max_num_seqs": 3}, revision=2)
    limits.begin_step()
    (tmp_path / "knobs.json").unlink()
    spoil(tmp_path / "knobs.json")
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert scheduler.max_num_active_reqs == 3 and told["revision"] == 2
    assert told["error"].startswith("knobs.json: ")
    limits.begin_step()
    assert not limits._untold  # The same trouble is not told again in each step.
    path = tmp_path / "knobs.json"
    path.rmdir() if path.is_dir() else path.unlink()
    _want(tmp_path, {"max_num_seqs": 4}, revision=3)
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert (scheduler.max_num_active_reqs, told["revision"], told["error"]) == (4, 3, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens", "x"])
FILES = st.binary(max_size=300) | st.builds(
    lambda revision, knobs, asked: json.dumps({"revision": revision, "knobs": knobs, "asked": asked}).encode(),
    st.integers(0, 9) | JSON,
    st.dictionaries(NAMES, st.integers(-3, 5000) | JSON, max_size=4) | JSON,
    st.none() | st.floats() | JSON,
)


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FILES, min_size=1, max_size=4))
def test_whatever_the_file_holds_the_limits_stay_within_what_is_safe(tmp_path: Path, contents: list[bytes]) -> None:
    (tmp_path / "knobs.json").unlink(missing_ok=True)
    scheduler, limits = _limits(tmp_path)
    for content in contents:
        before, revision = scheduler.schedule(), _told(tmp_path, limits)["revision"]
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", tmp_path / "knobs.json")
        limits.begin_step()
        budget, chunk, requests = scheduler.schedule()
        assert 5 <= budget <= 1024 and (chunk == 0 or chunk >= 5) and 1 <= requests <= 8
        assert scheduler.dynamic_sd_lookup is None or all(0 <= one <= 4 for one in scheduler.dynamic_sd_lookup)
        told = _told(tmp_path, limits)
        if told["error"]:
            assert (scheduler.schedule(), told["revision"]) == (before, revision)


@pytest.mark.parametrize("content", [b"[" * 60_000, b'{"knobs":' * 5000, b"9" * 50_000, b'\xff\xfe{"', b""])
def test_files_that_break_parsers_do_not_break_this_one(tmp_path: Path, content: bytes) -> None:
    scheduler, limits = _limits(tmp_path)
    (tmp_path / "knobs.json").write_bytes(content)
    limits.begin_step()
    assert scheduler.schedule() == (1024, 0, 8) and "not JSON" in _told(tmp_path, limits)["error"]


def test_effective_is_written_again_when_the_folder_was_removed(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    _, limits = _limits(folder)
    limits.write()
    (folder / "effective.json").unlink()
    folder.rmdir()
    limits.begin_step()
    limits.write(look_again=True)
    assert json.loads((folder / "effective.json").read_bytes())["revision"] == 0


def test_a_folder_that_cannot_be_written_is_counted_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailwright_vllm import limits as module

    monkeypatch.setattr(module.surprises, "counts", {})
    _, limits = _limits(tmp_path)
    (tmp_path / ".effective.json.tmp").touch()
    monkeypatch.setattr(module, "write_atomically", _full_disk)
    limits.write()
    assert module.surprises.counts == {"effective.json": 1}


def _full_disk(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_other_ranks_write_files_of_their_own(tmp_path: Path) -> None:
    Limits(Scheduler(config_of()), tmp_path, rank=2, clock=Clock()).write()
    assert json.loads((tmp_path / "effective.2.json").read_bytes())["rank"] == 2
    assert not (tmp_path / "effective.json").exists()


def test_an_idle_server_takes_up_a_file_without_a_step(tmp_path: Path) -> None:
    scheduler, limits = _limits(tmp_path)
    threading.Thread(target=limits.follow, daemon=True).start()
    _want(tmp_path, {"max_num_seqs": 3}, revision=6)
    taken = threading.Event()
    for _ in range(3000):
        if (tmp_path / "effective.json").exists() and b'"revision": 6' in (tmp_path / "effective.json").read_bytes():
            taken.set()
            break
        taken.wait(0.01)
    assert taken.is_set() and scheduler.max_num_active_reqs == 3


class Wakings:
    """In place of the thread's event: each waking happens after one of these, then the thread ends."""

    def __init__(self, *before: Callable[[], None]) -> None:
        self.before = iter(before)
        self.waited_s: list[float] = []

    def wait(self, timeout_s: float) -> None:
        self.waited_s.append(timeout_s)
        next(self.before)()  # StopIteration ends `follow`: waiting lies outside of what it survives.

    def set(self) -> None: ...

    def clear(self) -> None: ...


def _nothing() -> None: ...


def _looks(limits: Limits, *before: Callable[[], None]) -> list[int]:
    """How often the thread itself has looked for a file after each waking."""
    looks, seen = 0, []
    look = limits.look

    def counted() -> None:
        nonlocal looks
        looks += 1
        look()

    def waking(happens: Callable[[], None]) -> Callable[[], None]:
        def happen() -> None:
            seen.append(looks)
            limits.look = look  # type: ignore[method-assign]
            happens()
            limits.look = counted  # type: ignore[method-assign]

        return happen

    limits._news = Wakings(*map(waking, before), lambda: seen.append(looks))  # type: ignore[assignment]
    with pytest.raises(StopIteration):
        limits.follow()
    assert all(0.0 < waited_s <= 0.25 for waited_s in limits._news.waited_s)  # type: ignore[attr-defined]
    return seen[1:]


def test_the_thread_looks_only_if_no_step_has_begun_since_it_last_woke(tmp_path: Path) -> None:
    scheduler, limits = _limits(tmp_path)
    step = limits.begin_step
    assert _looks(limits, _nothing, step, step, _nothing, step, _nothing) == [1, 1, 1, 2, 2, 3]
    assert _looks(limits, step, lambda: _want(tmp_path, {"max_num_seqs": 3}, revision=4)) == [0, 1]
    assert scheduler.max_num_active_reqs == 3  # Within two wakings of the last step.
    assert json.loads((tmp_path / "effective.json").read_bytes())["revision"] == 4


def test_the_thread_never_waits_for_a_step(tmp_path: Path) -> None:
    _, limits = _limits(tmp_path)
    with limits.between_steps:
        assert _looks(limits, _nothing) == [0]


def test_a_knob_that_can_no_longer_be_moved_is_told_and_the_others_move(tmp_path: Path) -> None:
    scheduler, limits = _limits(tmp_path)
    scheduler.scheduler_config = SimpleNamespace()  # The lever keeps the old one; what breaks is below.

    class Stubborn(Scheduler):
        @property
        def max_num_active_reqs(self) -> int:
            return 8

        @max_num_active_reqs.setter
        def max_num_active_reqs(self, value: int) -> None:
            if value != 8:
                raise RuntimeError("not today")

    stubborn = Stubborn(config_of())
    limits = Limits(stubborn, tmp_path, clock=Clock())
    _want(tmp_path, {"max_num_seqs": 3, "max_num_batched_tokens": 64})
    limits.begin_step()
    told = _told(tmp_path, limits)
    assert stubborn.schedule() == (64, 0, 8)
    assert "max_num_seqs" not in told["live"] and "not today" in told["fixed"]["max_num_seqs"]
