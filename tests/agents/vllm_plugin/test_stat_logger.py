"""The plugin inside vLLM's server process: idle until it is asked, and no vLLM of another shape is broken by it."""

import json
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.folder import VARIABLE
from tailwright_vllm.further import queue_limits
from tailwright_vllm.served_socket import ServedSocket

from tests.agents.backends.vllm.toy_vllm import AsyncLLM
from tests.agents.vllm_plugin.vllm_trees import (
    IterationStats,
    StatLoggerBase,
    config_of,
    load,
    request_stats,
    scheduler_stats,
)

Put = Callable[..., None]


def _logger(config: Any = None, index: int = 0) -> Any:
    return load("tailwright_vllm.stat_logger").TailwrightStatLogger(config or config_of(), index)


def _told(folder: Path) -> Any:
    return json.loads((folder / "plugin.json").read_bytes())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "share"))
    return tmp_path / "share"


def test_without_the_folder_nothing_is_wrapped_started_or_written(
    vllm: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    vllm()
    stats = load("vllm.v1.metrics.stats").IterationStats
    before, threads = dict(vars(stats)), threading.active_count()
    logger = _logger()
    logger.record(scheduler_stats(), stats())
    logger.log_engine_initialized()
    assert dict(vars(stats)) == before and threading.active_count() == threads
    assert list(tmp_path.iterdir()) == [] and surprises.surprises.counts == {}


def test_raw_statistics_reach_the_ring_and_plugin_json_says_so(vllm: Put, folder: Path) -> None:
    vllm()
    logger = _logger()
    logger.log_engine_initialized()
    stats = load("vllm.v1.metrics.stats").IterationStats()
    output = SimpleNamespace(new_token_ids=[1], prefill_stats=SimpleNamespace(num_prompt_tokens=9, num_cached_tokens=0))
    stats.update_from_output(output, 1.0, True, request_stats())
    logger.record(scheduler_stats(), stats)
    record = logger._feed.ring.after(0)[0].record
    assert record.first_tokens == [(1.0, 9, 0)] and record.running == 1
    told = _told(folder)
    assert told["raw_statistics"] == {"on": True, "why": "", "details": True}
    assert told["live_limits"] == {"on": True, "why": ""}
    assert (told["vllm"], told["tried"]) == ("0.32.0", True)


def test_engines_of_one_process_share_the_feed(vllm: Put, folder: Path) -> None:
    vllm()
    first, second = _logger(index=0), _logger(index=1)
    first.record(scheduler_stats(2), None)
    second.record(scheduler_stats(3), None)
    assert first._feed is second._feed
    assert [one.record.running for one in first._feed.ring.after(0)] == [2, 5]


@pytest.mark.parametrize(
    ("scheduler_cls", "why"), [(None, "without --scheduler-cls"), ("other.Scheduler", "other.Scheduler")]
)
def test_missing_live_limits_are_told_with_the_mend(vllm: Put, folder: Path, scheduler_cls: Any, why: str) -> None:
    vllm()
    _logger(config_of(scheduler_cls=scheduler_cls))
    limits = _told(folder)["live_limits"]
    assert limits["on"] is False and why in limits["why"] and "tailwright_vllm.scheduler" in limits["why"]


def test_an_untried_release_is_told_once(vllm: Put, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    vllm(version="0.99.1+cu130")
    _logger(index=0)
    _logger(index=1)
    assert sum("0.99.1" in line for line in caplog.messages) == 1
    assert _told(folder)["tried"] is False


def test_a_folder_with_too_long_a_path_is_told_and_vllm_serves_on(
    vllm: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    long = tmp_path / ("x" * 120)
    monkeypatch.setenv(VARIABLE, str(long))
    vllm()
    logger = _logger()
    logger.record(scheduler_stats(), IterationStats())
    assert [line for line in caplog.messages if "107" in line and "no raw statistics" in line]
    told = _told(long)["raw_statistics"]
    assert told["on"] is False and "107" in told["why"]


def test_a_folder_that_cannot_be_made_is_one_line_in_the_log(
    vllm: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "share"))
    vllm()
    _logger().record(scheduler_stats(), IterationStats())
    assert len([line for line in caplog.messages if "no raw statistics" in line]) == 1


@pytest.mark.parametrize(
    "surprise",
    [
        (SimpleNamespace(), None),
        (scheduler_stats(prefix_cache_stats=5), None),
        (None, SimpleNamespace()),
        (object(), object()),
    ],
)
def test_statistics_of_another_shape_end_the_recording_with_a_reason(
    vllm: Put, folder: Path, caplog: pytest.LogCaptureFixture, surprise: Any
) -> None:
    vllm()
    logger = _logger()
    thread = logger._feed._thread
    logger.record(*surprise)
    logger.record(*surprise)
    thread.join(60.0)
    assert not thread.is_alive() and not (folder / "events.sock").exists()
    assert surprises.surprises.counts == {"record": 1}
    assert len([line for line in caplog.messages if "recording ended" in line]) == 1
    told = _told(folder)["raw_statistics"]
    assert told["on"] is False and "not the known ones" in told["why"]


def test_without_the_iteration_statistics_class_events_lack_only_their_labels(vllm: Put, folder: Path) -> None:
    vllm(IterationStats=None)
    logger = _logger()
    stats = IterationStats()
    stats.time_to_first_tokens_iter = [0.5]
    logger.record(scheduler_stats(), stats)
    assert logger._feed.ring.after(0)[0].record.first_tokens == [(0.5, None, 0)]
    assert _told(folder)["raw_statistics"] == {"on": True, "why": "", "details": False}


@pytest.fixture
def server(vllm: Put, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """vLLM's server is loaded here; the targets of the threads that follow its queue limits, which do not run."""
    vllm()
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.async_llm", SimpleNamespace(AsyncLLM=AsyncLLM))  # type: ignore[arg-type]
    begun: list[Any] = []
    thread = lambda target, **_: SimpleNamespace(start=lambda: begun.append(target))  # noqa: E731
    monkeypatch.setattr(queue_limits, "threading", SimpleNamespace(Thread=thread))
    return begun


def _queue_limits(folder: Path) -> Any:
    return json.loads((folder / "queue_limits.json").read_bytes())


def test_queue_limits_are_followed_once_in_the_server_and_told_by_the_process_of_plugin_json(
    server: list[Any], folder: Path
) -> None:
    config = config_of(max_num_queued_reqs=4, max_num_queued_tokens=None)
    _logger(config, 0)
    _logger(config, 1)
    told = _queue_limits(folder)
    assert told["limits"]["max_num_queued_reqs"] == {"runs": 4, "started": 4, "why_not": ""}
    assert told["process"] == _told(folder)["process"] and len(server) == 1


def test_queue_limits_move_also_without_raw_statistics(
    server: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    monkeypatch.setenv(VARIABLE, str(long))
    _logger(config_of(max_num_queued_reqs=4, max_num_queued_tokens=None))
    assert _queue_limits(long)["process"] == _told(long)["process"] and len(server) == 1


def test_without_live_limits_the_queue_limits_stay(server: list[Any], folder: Path) -> None:
    _logger(config_of(scheduler_cls=None, max_num_queued_reqs=4, max_num_queued_tokens=None))
    assert not (folder / "queue_limits.json").exists() and server == []


@pytest.mark.parametrize("serves", [True, False])
def test_of_several_api_servers_the_one_that_serves_says_that_they_stay(
    server: list[Any], folder: Path, serves: bool
) -> None:
    other = ServedSocket(folder)
    if not serves:
        other.hold()
    config = config_of(max_num_queued_reqs=4, max_num_queued_tokens=None)
    config.parallel_config._api_process_count = 2
    _logger(config)
    other.release()
    assert (folder / "queue_limits.json").exists() is serves and server == []
    if serves:
        assert "2 API servers" in _queue_limits(folder)["limits"]["max_num_queued_reqs"]["why_not"]


def test_queue_limits_that_cannot_be_followed_cost_no_statistics(
    server: list[Any], folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queue_limits, "QueueLimits", None)
    logger = _logger()
    logger.record(scheduler_stats(), None)
    assert logger._feed.ring.newest == 1
    assert [line for line in caplog.messages if "the queue limits stay as started" in line]


class Later(StatLoggerBase):
    @abstractmethod
    def record_weather(self, cloudy: bool) -> None: ...


def test_a_later_base_class_with_more_abstract_methods_does_not_stop_vllm(vllm: Put, folder: Path) -> None:
    vllm(StatLoggerBase=Later)
    logger = _logger()
    logger.record_sunshine(1, hours=2)  # What a still later vLLM may call on its loggers.
    logger.log_moon()
    assert logger.log() == "vLLM's own"
    with pytest.raises(AttributeError):
        logger.anything_else()


def test_other_arguments_are_met_with_grace(vllm: Put, folder: Path) -> None:
    vllm()
    made = load("tailwright_vllm.stat_logger").TailwrightStatLogger
    logger = made(config_of(), [0, 1], "more", later=True)
    logger.record(scheduler_stats(), None, None, 0, "more", later=True)
    assert logger._feed.ring.newest == 1
    made(None).record(scheduler_stats(), None)


def test_a_vllm_without_the_base_class_fails_to_load_the_plugin_and_nothing_else(vllm: Put, folder: Path) -> None:
    vllm(StatLoggerBase=None)
    with pytest.raises(ImportError):  # vLLM's plugin loader logs it and goes on.
        load("tailwright_vllm.stat_logger")
    assert not folder.exists()
