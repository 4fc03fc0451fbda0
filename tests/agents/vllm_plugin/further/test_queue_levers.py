"""vLLM's queue limits: moved where vLLM's own check reads them for each request, and nowhere else."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm.further.queue_levers import queue_levers
from tailwright_vllm.levers import Lever

from tests.agents.backends.vllm.toy_vllm import AsyncLLM, QueueOverflow
from tests.agents.vllm_plugin.vllm_trees import config_of


def put_server(monkeypatch: pytest.MonkeyPatch, server: Any = AsyncLLM) -> None:
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.async_llm", SimpleNamespace(AsyncLLM=server))  # type: ignore[arg-type]


def config_with(reqs: Any = None, tokens: Any = None) -> Any:
    return config_of(max_num_queued_reqs=reqs, max_num_queued_tokens=tokens)


def levers(config: Any, api_servers: int = 1) -> dict[str, Lever]:
    return {one.name: one for one in queue_levers(config, api_servers)}


def test_a_moved_limit_is_what_the_next_request_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    put_server(monkeypatch)
    config = config_with()
    server, moved = AsyncLLM(config), levers(config)
    server.in_flight, server.queued_tokens = 3, 100
    server.check_admission()
    moved["max_num_queued_reqs"].move(3)
    with pytest.raises(QueueOverflow, match="max_num_queued_reqs"):
        server.check_admission()
    moved["max_num_queued_reqs"].move(4)
    server.check_admission()
    moved["max_num_queued_tokens"].move(100)
    with pytest.raises(QueueOverflow, match="max_num_queued_tokens"):
        server.check_admission()
    moved["max_num_queued_tokens"].move(None)
    server.check_admission()
    assert {name: one.read() for name, one in moved.items()} == {
        "max_num_queued_reqs": 4,
        "max_num_queued_tokens": None,
    }


class ReadsOne(AsyncLLM):
    def check_admission(self, n: int = 1) -> None:
        self.scheduler_config.max_num_queued_reqs.bit_length()


class ReadsNone:
    pass


@pytest.mark.parametrize(
    ("server", "fixed"),
    [(ReadsOne, ["max_num_queued_tokens"]), (ReadsNone, ["max_num_queued_reqs", "max_num_queued_tokens"])],
)
def test_a_limit_that_the_check_does_not_read_stays(
    monkeypatch: pytest.MonkeyPatch, server: Any, fixed: list[str]
) -> None:
    put_server(monkeypatch, server)
    found = {name: one.why_not for name, one in levers(config_with(8, 4096)).items() if one.why_not}
    assert list(found) == fixed
    assert all("check_admission() does not read" in why for why in found.values())


def test_in_a_process_that_is_no_server_both_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm.v1.engine.async_llm", raising=False)
    assert all(one.why_not for one in levers(config_with()).values())


@pytest.mark.parametrize("value", [True, 8.0, "8", [8]])
def test_a_value_of_another_kind_stays(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    put_server(monkeypatch)
    config = config_with(reqs=value)
    found = levers(config)
    assert "max_num_queued_reqs is" in found["max_num_queued_reqs"].why_not
    assert found["max_num_queued_reqs"].read() is None and not found["max_num_queued_tokens"].why_not
    assert config.scheduler_config.max_num_queued_reqs is value


def test_a_release_without_them_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    put_server(monkeypatch)
    assert all("this vLLM's server is another" in one.why_not for one in levers(config_of()).values())
    assert all("this vLLM's server is another" in one.why_not for one in levers(None).values())


class Frozen(SimpleNamespace):
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")


def test_a_frozen_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    put_server(monkeypatch)
    config = config_with(8)
    config.scheduler_config = Frozen(**vars(config.scheduler_config))
    assert all("frozen" in one.why_not for one in levers(config).values())


def test_several_api_servers_keep_theirs_and_tell_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    put_server(monkeypatch)
    found = levers(config_with(8), api_servers=4)["max_num_queued_reqs"]
    assert "4 API servers" in found.why_not and found.read() == 8
