"""The queue limits of one server process: followed, told as they are read, and never lost to a bad file."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.further import queue_limits
from tailwright_vllm.further.queue_limits import QueueLimits, follow_queue_limits
from tailwright_vllm.installation import PROCESS
from tailwright_vllm.limits import Limits

from tests.agents.backends.vllm.toy_vllm import AsyncLLM
from tests.agents.vllm_plugin.vllm_trees import Scheduler, config_of

REQS, TOKENS = "max_num_queued_reqs", "max_num_queued_tokens"


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.async_llm", SimpleNamespace(AsyncLLM=AsyncLLM))  # type: ignore[arg-type]
    return config_of(max_num_queued_reqs=None, max_num_queued_tokens=4096)


def want(folder: Path, limits: Any, revision: int = 1, **more: Any) -> None:
    scratch = folder / "new"
    scratch.write_text(json.dumps({"revision": revision, "knobs": {}, "queue_limits": limits, **more}))
    os.replace(scratch, folder / "knobs.json")


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "queue_limits.json").read_bytes())
    return found


def test_what_runs_is_told_at_the_start_and_after_each_change(tmp_path: Path, config: Any) -> None:
    limits = QueueLimits(tmp_path, config, clock=lambda: 7.5)
    assert told(tmp_path) == {
        "limits": {
            REQS: {"runs": None, "started": None, "why_not": ""},
            TOKENS: {"runs": 4096, "started": 4096, "why_not": ""},
        },
        "revision": 0, "asked": None, "error": "", "process": PROCESS, "time": 7.5, "pid": os.getpid(),
        "plugin": "0.6.0",
    }  # fmt: skip
    want(tmp_path, {REQS: 8, TOKENS: None}, 3, asked=5.0)
    limits.look()
    assert config.scheduler_config.max_num_queued_reqs == 8
    assert config.scheduler_config.max_num_queued_tokens is None
    found = told(tmp_path)
    assert {name: one["runs"] for name, one in found["limits"].items()} == {REQS: 8, TOKENS: None}
    assert found["limits"][TOKENS]["started"] == 4096
    assert (found["revision"], found["asked"], found["error"]) == (3, 5.0, "")


def test_a_file_that_is_there_at_the_start_is_in_force_before_the_first_request(tmp_path: Path, config: Any) -> None:
    want(tmp_path, {REQS: 2})
    QueueLimits(tmp_path, config)
    assert config.scheduler_config.max_num_queued_reqs == 2 and told(tmp_path)["limits"][REQS]["runs"] == 2


def test_values_are_read_back_not_echoed(tmp_path: Path, config: Any) -> None:
    limits = QueueLimits(tmp_path, config)
    config.scheduler_config.max_num_queued_reqs = 5  # Somebody else moved it.
    want(tmp_path, {})
    limits.look()
    assert told(tmp_path)["limits"][REQS]["runs"] == 5


@pytest.mark.parametrize(
    "wrong", [{REQS: -1}, {REQS: 1.5}, {TOKENS: True}, {TOKENS: "9"}, {REQS: 2**63}, {"x": 1}, [4]]
)
def test_a_wrong_file_changes_nothing_in_either_process(tmp_path: Path, config: Any, wrong: Any) -> None:
    limits, engine = QueueLimits(tmp_path, config), Limits(Scheduler(config), tmp_path)
    want(tmp_path, {REQS: 8}, 2)
    limits.look(), engine.look()
    (tmp_path / "knobs.json").write_text(
        json.dumps({"revision": 3, "knobs": {"max_num_seqs": 3}, "queue_limits": wrong})
    )
    limits.look(), engine.look()
    engine.write()
    found, other = told(tmp_path), json.loads((tmp_path / "effective.json").read_bytes())
    assert config.scheduler_config.max_num_queued_reqs == 8
    assert found["revision"] == other["revision"] == 2 and found["error"] == other["error"] != ""
    assert other["knobs"]["max_num_seqs"] == 8
    want(tmp_path, {REQS: 9}, 4)
    limits.look()
    assert (told(tmp_path)["error"], config.scheduler_config.max_num_queued_reqs) == ("", 9)


def test_what_the_scheduler_would_refuse_moves_no_queue_limit(tmp_path: Path, config: Any) -> None:
    limits = QueueLimits(tmp_path, config)
    (tmp_path / "knobs.json").write_text(json.dumps({"knobs": {"max_num_seqs": 0}, "queue_limits": {REQS: 3}}))
    limits.look()
    assert config.scheduler_config.max_num_queued_reqs is None and "max_num_seqs" in told(tmp_path)["error"]


def test_the_scheduler_takes_them_for_known_and_claims_none(tmp_path: Path, config: Any) -> None:
    want(tmp_path, {REQS: 8, TOKENS: None}, 2)
    engine = Limits(Scheduler(config), tmp_path)
    engine.write()
    found = json.loads((tmp_path / "effective.json").read_bytes())
    assert (found["revision"], found["error"]) == (2, "")
    assert not {REQS, TOKENS} & {*found["knobs"], *found["more"]}
    assert config.scheduler_config.max_num_queued_reqs is None


def test_a_limit_that_fails_to_move_is_told_as_fixed(tmp_path: Path, config: Any) -> None:
    limits = QueueLimits(tmp_path, config)

    def stuck(value: int | None) -> None:
        raise AttributeError("stuck")

    limits._levers[REQS].move = stuck
    want(tmp_path, {REQS: 8, TOKENS: 9})
    limits.look()
    found = told(tmp_path)["limits"]
    assert "stuck" in found[REQS]["why_not"] and found[TOKENS] == {"runs": 9, "started": 4096, "why_not": ""}
    assert limits.live == [TOKENS]


def test_a_file_that_vanished_is_written_again(tmp_path: Path, config: Any) -> None:
    limits = QueueLimits(tmp_path, config)
    (tmp_path / "queue_limits.json").unlink()
    limits.look()
    assert not (tmp_path / "queue_limits.json").exists()
    limits.look(look_again=True)
    assert told(tmp_path)["limits"][TOKENS]["runs"] == 4096


def test_a_folder_that_cannot_be_written_now_is_told_later(tmp_path: Path, config: Any) -> None:
    folder = tmp_path / "share"
    folder.touch()
    limits = QueueLimits(folder, config)
    folder.unlink()
    limits.look()
    assert told(folder)["limits"][TOKENS]["runs"] == 4096


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that would have begun."""
    names: list[str] = []
    thread = lambda name, **_: SimpleNamespace(start=lambda: names.append(name))  # noqa: E731
    monkeypatch.setattr(queue_limits, "threading", SimpleNamespace(Thread=thread))
    monkeypatch.setattr(queue_limits, "_followed", {})
    return names


def test_one_process_follows_a_folder_once(tmp_path: Path, config: Any, begun: list[str]) -> None:
    follow_queue_limits(tmp_path, config, 1)
    follow_queue_limits(tmp_path, config, 1)
    assert begun == ["tailwright-queue"]


def test_several_api_servers_start_no_thread_and_tell_why(tmp_path: Path, config: Any, begun: list[str]) -> None:
    want(tmp_path, {REQS: 8})
    follow_queue_limits(tmp_path, config, 2)
    found = told(tmp_path)["limits"]
    assert "2 API servers" in found[REQS]["why_not"] and found[TOKENS]["runs"] == 4096
    assert config.scheduler_config.max_num_queued_reqs is None and begun == []


class Ended(BaseException):
    pass


def test_the_thread_goes_on_whatever_goes_wrong(
    tmp_path: Path, config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = QueueLimits(tmp_path, config)
    monkeypatch.setattr(surprises.surprises, "counts", {})
    meanwhile: list[Callable[[], None]] = [
        lambda: setattr(config.scheduler_config, REQS, "x"),
        lambda: want(tmp_path, {TOKENS: 5}),
        lambda: setattr(config.scheduler_config, REQS, 6),
        lambda: want(tmp_path, {TOKENS: 7}),
    ]

    def sleep(_: float) -> None:
        if not meanwhile:
            raise Ended
        meanwhile.pop(0)()

    monkeypatch.setattr(queue_limits, "time", SimpleNamespace(sleep=sleep))
    with pytest.raises(Ended):
        limits.follow()
    found = told(tmp_path)["limits"]
    assert (found[REQS]["runs"], found[TOKENS]["runs"]) == (6, 7)
    assert len([line for line in caplog.messages if "could not be followed" in line]) == 1
