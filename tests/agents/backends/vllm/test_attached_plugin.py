"""The attached backend keeps the seam's promises with the real plugin, in a stand-in server."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.backends.base import Backend, EngineUnreachable
from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, Quantization
from controlplane.contract.reports.node_memory import NodeMemory
from tests.agents.backends.backend_conformance import REFUSED, BackendConformance
from tests.agents.backends.vllm.conftest import ALL_LIMITS, StandInServer

pytestmark = pytest.mark.slow


class StandInDriver:
    has_cache_reset = False  # Its server is not in its development mode.

    def __init__(self, server: StandInServer) -> None:
        self._server = server

    def emit_steps(self, count: int) -> None:
        self._server.complete(max_tokens=count)

    @contextmanager
    def refuse(self) -> Iterator[EngineConfig]:
        yield REFUSED

    def restart(self) -> None:
        self._server.kill()
        self._server.start(*ALL_LIMITS)

    def vanish(self) -> None:
        self._server.kill()


@pytest.fixture
def live(server: StandInServer) -> StandInServer:
    server.start(*ALL_LIMITS)
    return server


class TestAttachedVllm(BackendConformance):
    @pytest.fixture
    def backend(self, live: StandInServer) -> Callable[[], Backend]:
        return lambda: AttachedVllm(live.url, live.folder)

    @pytest.fixture
    def driver(self, live: StandInServer) -> StandInDriver:
        return StandInDriver(live)


def test_effective_says_what_can_move_how_far_and_what_it_cost(live: StandInServer, tmp_path: Path) -> None:
    async def run() -> None:
        backend = AttachedVllm(live.url, live.folder, state_dir=tmp_path / "state")
        first = await backend.effective()
        assert (
            first.knobs == EngineConfig(max_num_batched_tokens=1024, max_num_seqs=16, num_speculative_tokens=8).knobs()
        )
        assert first.sources.keys() == first.knobs.keys() == KNOBS.keys()
        assert all("vLLM" in source for source in first.sources.values())
        expected = dict.fromkeys(KNOBS, ChangeClass.LIVE) | {"quantization": ChangeClass.RESTART}
        assert first.change_classes == expected
        capacity = {"max_num_batched_tokens": 1024, "max_num_seqs": 16, "num_speculative_tokens": 8}
        assert first.live_limits == first.limits == capacity
        assert first.formats == ["none"]
        assert first.costs == {}
        await backend.apply(EngineConfig(max_num_seqs=4), 7)
        cost = (await backend.effective()).costs[ChangeClass.LIVE]
        assert cost.count == 1 and 0 < cost.last_s < 5 and cost.unavailable_s == 0
        again = AttachedVllm(live.url, live.folder, state_dir=tmp_path / "state")
        assert (await again.effective()).costs == {ChangeClass.LIVE: cost}
        assert (await again.health()).degraded == ""

    asyncio.run(run())


def test_the_cache_is_told_as_vllm_tells_it_also_after_a_change(live: StandInServer) -> None:
    async def run() -> None:
        backend = AttachedVllm(live.url, live.folder)
        told = (await backend.effective()).memory
        assert told == NodeMemory(kv_cache_memory_bytes=2**20, kv_cache_size_tokens=4096, max_model_len=1024)
        assert (await backend.apply(EngineConfig(max_num_seqs=3), 7)).memory == told

    asyncio.run(run())


def test_what_the_plugin_knows_of_the_memory_counts_before_the_metric(server: StandInServer) -> None:
    told = {"limit_bytes": 2**31, "weights_bytes": 2**28, "kv_cache_memory_bytes": 2**19, "newer": 3}
    server.start(*ALL_LIMITS, STAND_IN_MEMORY=json.dumps(told))

    async def run() -> list[NodeMemory | None]:
        backend = AttachedVllm(server.url, server.folder)
        return [(await backend.effective()).memory, (await backend.apply(EngineConfig(max_num_seqs=3), 7)).memory]

    found, after = asyncio.run(run())
    assert (
        found
        == after
        == NodeMemory(
            limit_bytes=2**31,
            weights_bytes=2**28,
            weights_bytes_by_format={"none": 2**28},
            kv_cache_memory_bytes=2**19,
            kv_cache_size_tokens=4096,
            max_model_len=1024,
        )
    )


def test_the_time_of_receipt_travels_to_the_scheduler_and_back(live: StandInServer) -> None:
    before = time.time()
    asyncio.run(AttachedVllm(live.url, live.folder).apply(EngineConfig(max_num_seqs=3), 7))
    asked = json.loads((live.folder / "knobs.json").read_bytes())
    told = json.loads((live.folder / "effective.json").read_bytes())
    assert before <= asked["asked"] <= time.time()
    assert told["asked"] == asked["asked"] and told["revision"] == 7
    assert isinstance(told["steps_waited"], int)


@pytest.mark.parametrize(
    ("config", "field", "mend"),
    [
        (EngineConfig(max_num_batched_tokens=1025), "knobs.max_num_batched_tokens", "larger capacity"),
        (EngineConfig(max_num_seqs=17), "knobs.max_num_seqs", "larger capacity"),
        (EngineConfig(max_num_seqs=3, num_speculative_tokens=((4, 9),)), "knobs.num_speculative_tokens", "capacity"),
        (EngineConfig(max_num_batched_tokens=1), "knobs.max_num_batched_tokens", "larger one"),
        (EngineConfig(max_num_seqs=3, quantization=Quantization.INT8), "knobs.quantization", "manage the server"),
    ],
)
def test_what_is_not_live_is_refused_by_name(live: StandInServer, config: EngineConfig, field: str, mend: str) -> None:
    async def run() -> None:
        backend = AttachedVllm(live.url, live.folder)
        before = await backend.apply(EngineConfig(max_num_seqs=5), 4)
        with pytest.raises(KnobOutOfRange, match=mend) as caught:
            await backend.apply(config, 5)
        assert caught.value.detail["field"] == field and field in caught.value.message
        assert (await backend.effective()).knobs == before.knobs

    asyncio.run(run())


def test_a_knob_that_is_not_live_here_may_keep_its_value(server: StandInServer) -> None:
    server.start("--scheduler-cls=tailwright_vllm.scheduler.live_scheduler", "--max-num-seqs=16", "--quantization=fp8")

    async def run() -> None:
        backend = AttachedVllm(server.url, server.folder)
        wanted = EngineConfig(max_num_seqs=2, num_speculative_tokens=0, quantization=Quantization.FP8)
        applied = await backend.apply(wanted, 3)
        assert applied.knobs == wanted.knobs()
        assert applied.formats == ["fp8"]
        assert applied.limits["num_speculative_tokens"] == 0 and "num_speculative_tokens" not in applied.live_limits
        with pytest.raises(KnobOutOfRange, match="num_speculative_tokens"):
            await backend.apply(wanted.model_copy(update={"num_speculative_tokens": 2}), 4)

    asyncio.run(run())


def test_a_scheduler_that_does_not_take_up_the_knobs_is_waited_for_and_the_old_knobs_are_put_back(
    live: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        backend = AttachedVllm(live.url, live.folder)
        await backend.apply(EngineConfig(max_num_seqs=5), 4)
        monkeypatch.setattr("agents.backends.vllm.attached.TAKE_UP_TIMEOUT_S", 0.05)
        told = (live.folder / "effective.json").read_bytes()
        monkeypatch.setattr(backend._link, "read_effective", lambda *_: json.loads(told))
        with pytest.raises(EngineUnreachable, match=r"knobs\.json"):
            await backend.apply(EngineConfig(max_num_seqs=6), 5)
        left = json.loads((live.folder / "knobs.json").read_bytes())
        assert left["revision"] == 4 and left["knobs"]["max_num_seqs"] == 5

    asyncio.run(run())


def test_what_an_earlier_server_left_in_the_folder_is_not_believed(live: StandInServer) -> None:
    live.kill()
    long_ago = json.loads((live.folder / "effective.json").read_bytes()) | {"time": time.time() - 3600}
    live.start(*ALL_LIMITS[1:], plugin=False)
    (live.folder / "effective.json").write_text(json.dumps(long_ago))

    async def run() -> None:
        backend = AttachedVllm(live.url, live.folder)
        found = await backend.effective()
        assert found.knobs == {} and found.revision == 0
        assert "earlier server" in (await backend.health()).degraded

    asyncio.run(run())


def test_a_server_with_the_plugin_but_its_own_scheduler_says_so(server: StandInServer) -> None:
    server.start()

    async def run() -> None:
        backend = AttachedVllm(server.url, server.folder)
        assert (await backend.effective()).knobs == {}
        assert "--scheduler-cls" in (await backend.health()).degraded

    asyncio.run(run())


def test_a_server_in_its_development_mode_empties_its_cache(make_server: Callable[[], StandInServer]) -> None:
    server = make_server()
    server.start(*ALL_LIMITS, VLLM_SERVER_DEV_MODE="1")
    assert asyncio.run(AttachedVllm(server.url, server.folder).reset_cache())


def test_the_folder_of_another_server_is_noticed_where_vllm_tells_its_configuration(
    make_server: Callable[[], StandInServer],
) -> None:
    one, other = make_server(), make_server()
    one.start(*ALL_LIMITS, VLLM_SERVER_DEV_MODE="1")
    other.start(
        "--scheduler-cls=tailwright_vllm.scheduler.live_scheduler", "--max-num-seqs=9", VLLM_SERVER_DEV_MODE="1"
    )

    async def run() -> None:
        right, crossed = AttachedVllm(one.url, one.folder), AttachedVllm(one.url, other.folder)
        await right.effective()
        found = await crossed.effective()
        assert (await right.health()).degraded == ""
        assert "another server" in (await crossed.health()).degraded
        assert found.knobs["max_num_seqs"] == 9  # The scheduler's word counts.

    asyncio.run(run())
