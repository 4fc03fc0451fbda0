"""The scheduler classes: vLLM's own until a knob file speaks, and never the cause of a failed step."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.folder import VARIABLE

from tests.agents.vllm_plugin.vllm_trees import AsyncScheduler, Scheduler, config_of, load
from tests.conftest import wait_for

Put = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def _made(config: Any = None, **values: Any) -> Any:
    return load("tailwright_vllm.scheduler").live_scheduler(config or config_of(), **values)


def _told(folder: Path) -> Any:
    """The scheduler's own thread writes it."""
    wait_for("it tells", (folder / "effective.json").exists)
    return json.loads((folder / "effective.json").read_bytes())


def test_without_the_folder_it_is_vllms_own(vllm: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    vllm()
    threads = threading.active_count()
    scheduler = _made()
    assert scheduler.schedule(throttle_prefills=True) == (1024, 0, 8)
    assert scheduler._limits is None and threading.active_count() == threads


@pytest.mark.parametrize(("asynchronous", "kind"), [(False, Scheduler), (True, AsyncScheduler), (None, Scheduler)])
def test_it_is_of_the_servers_kind(vllm: Put, folder: Path, asynchronous: Any, kind: type) -> None:
    vllm()
    scheduler = _made(config_of(async_scheduling=asynchronous), log_stats=True)
    assert isinstance(scheduler, kind) and isinstance(scheduler, AsyncScheduler) is (kind is AsyncScheduler)


def test_a_step_runs_what_the_file_says(vllm: Put, folder: Path) -> None:
    vllm()
    scheduler = _made()
    (folder / "knobs.json").write_text(json.dumps({"revision": 2, "knobs": {"max_num_seqs": 3}}))
    assert scheduler.schedule() == (1024, 0, 3)


def test_errors_of_our_own_do_not_reach_vllm(vllm: Put, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm()
    scheduler = _made()

    def fail() -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(scheduler._limits, "begin_step", fail)
    assert [scheduler.schedule() for _ in range(3)] == [(1024, 0, 8)] * 3
    assert surprises.surprises.counts == {"step": 3}


def test_errors_of_vllms_own_reach_vllm_and_the_next_step_runs(vllm: Put, folder: Path) -> None:
    class Failing(Scheduler):
        fail = True

        def schedule(self, throttle_prefills: bool = False) -> Any:
            if self.fail:
                raise AssertionError("vLLM's own")
            return super().schedule(throttle_prefills)

    vllm(Scheduler=Failing)
    scheduler = _made()
    with pytest.raises(AssertionError, match="own"):
        scheduler.schedule()
    scheduler.fail = False
    assert scheduler.schedule() == (1024, 0, 8)


class NoConfig(Scheduler):
    def __init__(self, vllm_config: Any, **values: Any) -> None:
        super().__init__(vllm_config)
        del self.scheduler_config

    def schedule(self, throttle_prefills: bool = False) -> Any:
        return "its own step"


def test_a_scheduler_of_another_shape_runs_without_live_limits(
    vllm: Put, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vllm(Scheduler=NoConfig)
    scheduler = _made()
    assert scheduler.schedule() == "its own step"
    assert len([line for line in caplog.messages if "limits are not live" in line]) == 1
    told = _told(folder)
    assert told["live"] == [] and "scheduler_config" in told["error"]


class OtherSchedule(Scheduler):
    def schedule(self, *waves: int, colour: str) -> Any:  # type: ignore[override]
        return waves, colour


def test_another_signature_of_schedule_is_passed_through(vllm: Put, folder: Path) -> None:
    vllm(Scheduler=OtherSchedule)
    assert _made().schedule(1, 2, colour="red") == ((1, 2), "red")


def test_each_data_parallel_rank_tells_by_itself(vllm: Put, folder: Path) -> None:
    vllm()
    for rank in (0, 1):
        config = config_of()
        config.parallel_config.data_parallel_index = rank
        _made(config)
    wanted = {"effective.json", "effective.1.json"}  # Each is written by its scheduler's own thread.
    wait_for("both tell", lambda: {path.name for path in folder.glob("effective*.json")} == wanted)


def test_a_folder_that_cannot_be_used_leaves_vllm_as_it_is(
    vllm: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "share"))
    vllm()
    assert _made().schedule() == (1024, 0, 8)
    assert surprises.surprises.counts == {"scheduler": 1}
