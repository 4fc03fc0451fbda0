"""Without the plugin: what vLLM tells of itself, and a clear refusal of every change."""

import asyncio
from typing import Any

import pytest

from agents.backends.vllm.attached import AttachedVllm
from controlplane.contract.errors import KnobOutOfRange
from controlplane.contract.knobs import ChangeClass, EngineConfig
from tests.agents.backends.vllm.conftest import ALL_LIMITS, StandInServer

pytestmark = pytest.mark.slow

STARTED = EngineConfig(max_num_batched_tokens=1024, max_num_seqs=16, num_speculative_tokens=8)


def test_in_development_mode_the_configuration_is_read_and_what_runs_can_be_applied(server: StandInServer) -> None:
    server.start(*ALL_LIMITS[1:], plugin=False, VLLM_SERVER_DEV_MODE="1")

    async def run() -> None:
        backend = AttachedVllm(server.url, None)
        assert (await backend.effective()).revision == 0
        applied = await backend.apply(STARTED, 5)
        assert applied.knobs == STARTED.knobs() and applied.revision == 5
        assert set(applied.change_classes.values()) == {ChangeClass.RESTART}
        assert applied.costs == {}
        with pytest.raises(KnobOutOfRange, match=r"which runs 16.*let the agent manage the server") as caught:
            await backend.apply(STARTED.model_copy(update={"max_num_seqs": 4}), 6)
        assert caught.value.detail["field"] == "knobs.max_num_seqs"
        assert await backend.effective() == applied
        assert "no limit moves live" in (await backend.health()).degraded

    asyncio.run(run())


@pytest.mark.parametrize("folder", [True, False])
def test_otherwise_nothing_is_known_and_nothing_can_be_applied(server: StandInServer, folder: bool) -> None:
    server.start(*ALL_LIMITS[1:], plugin=False)

    async def run() -> Any:
        backend = AttachedVllm(server.url, server.folder if folder else None)
        found = await backend.effective()
        assert found.knobs == found.sources == found.limits == {}
        with pytest.raises(KnobOutOfRange, match=r"cannot be read.*install the plugin"):
            await backend.apply(STARTED, 5)
        return (await backend.health()).degraded

    degraded = asyncio.run(run())
    assert ("effective.json" if folder else "vllm_dir") in degraded
