"""What binds a real vLLM's steps: its own scheduler driven without a model, and a server under load."""

import asyncio
import contextlib
import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agents.agent.reports.tally import Tally
from agents.backends.vllm.plugin_link import PluginLink
from controlplane.contract import metrics
from controlplane.contract.step_limits import StepLimit
from tests.processes import wait_for
from tests.vllm import limits
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import ENVIRONMENT, MODEL_DIR, ROOT, VllmServer, vllm_environment

NO_WORK, BUDGET, SEATS = StepLimit.NO_WORK, StepLimit.TOKEN_BUDGET, StepLimit.MAX_NUM_SEQS
CHUNK, BLOCKS, DRAFTS = StepLimit.CHUNK, StepLimit.KV_MEMORY, StepLimit.DRAFTS
CASES: dict[str, tuple[dict[str, Any], list[StepLimit]]] = {
    "all fits": ({"lengths": [8, 8], "steps": 3}, [NO_WORK] * 3),
    "a prompt larger than the budget": ({"lengths": [20], "steps": 4, "budget": 8}, [BUDGET] * 2 + [NO_WORK] * 2),
    "somebody waits for the budget": ({"lengths": [8, 8], "steps": 3, "budget": 8}, [BUDGET] * 2 + [NO_WORK]),
    "more decodes than the budget": ({"lengths": [1, 1, 1], "steps": 4, "budget": 2}, [BUDGET] * 4),
    "a budget that just suffices": ({"lengths": [1, 1], "steps": 3, "budget": 2}, [NO_WORK] * 3),
    "somebody waits for a seat": ({"lengths": [8, 8], "steps": 3, "seats": 1}, [SEATS] * 3),
    "a prompt cut to the chunk": ({"lengths": [20, 1], "steps": 4, "chunk": 8}, [CHUNK] * 2 + [NO_WORK] * 2),
    "alone it is not cut": ({"lengths": [20], "steps": 2, "chunk": 8}, [NO_WORK] * 2),
    "no block for the next request": ({"lengths": [30, 30], "steps": 3, "blocks": 4}, [BLOCKS] * 3),
    "one set back for want of blocks": ({"lengths": [16, 16], "steps": 3, "blocks": 4}, [NO_WORK] + [BLOCKS] * 2),
    "drafts rejected": ({"lengths": [8], "steps": 3, "drafts": 4, "accepted": 1}, [NO_WORK] + [DRAFTS] * 2),
    "drafts accepted": ({"lengths": [8], "steps": 3, "drafts": 4, "accepted": 4}, [NO_WORK] * 3),
    "drafts while somebody waits": ({"lengths": [8, 8], "steps": 3, "drafts": 4, "seats": 1}, [SEATS] * 3),
    "asynchronously": ({"lengths": [8, 8], "steps": 4, "seats": 1, "asynchronous": True}, [SEATS] * 3),
    "drafts asynchronously": (
        {"lengths": [8], "steps": 4, "drafts": 4, "accepted": 1, "asynchronous": True},
        [NO_WORK] + [DRAFTS] * 2,
    ),
}


@pytest.fixture(scope="session")
def driven(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the plugin counted in each case."""
    plugin = ROOT / "agents/vllm_plugin"
    command = [str(ENVIRONMENT / "bin/python"), str(ROOT / "tests/vllm/driven_scheduler.py"), str(MODEL_DIR)]
    ran = subprocess.run(
        command,
        input=json.dumps([case for case, _ in CASES.values()]),
        env={
            **vllm_environment(), "PYTHONPATH": str(plugin), "VLLM_LOGGING_LEVEL": "ERROR",
            "TAILWRIGHT_VLLM_DIR": str(tmp_path_factory.mktemp("driven")),
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return dict(zip(CASES, json.loads(ran.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_vllms_own_scheduler_is_read_right(driven: dict[str, list[str]], case: str) -> None:
    assert driven[case] == [limit.value for limit in CASES[case][1]]


def _bound(server: VllmServer, asked: int, callers: int) -> Counter[str]:
    """What bound the steps of so many requests, as an agent counts it."""
    began, before = time.time(), _counted(server)
    answers = server.complete_all(prompts(asked, seed=asked), 32, callers)
    assert [answer.error for answer in answers if answer.failed] == []
    found = Counter[str]()

    def all_told() -> bool:
        nonlocal found
        found, events = asyncio.run(_told(server, began))
        # vLLM also tells of steps that computed nothing: one when it runs out of work, at most once for each request.
        return found.total() == _counted(server) - before and 0 <= events - found.total() <= asked

    wait_for("every step is told once", all_told)
    print(dict(found))
    return found


def _counted(server: VllmServer) -> int:
    """Steps that the scheduler says it counted."""
    path = server.folder / "steps.json"
    return sum(server.read_json(path.name)["steps"].values()) if path.exists() else 0


async def _told(server: VllmServer, began: float) -> tuple[Counter[str], int]:
    """The steps by limit that an agent counts of the stream since `began` (Unix seconds), and its events of steps."""
    tally, events, until = Tally(int(began // 5), 5.0, "m"), 0, time.time()
    stream = PluginLink(server.folder).events(None)
    with contextlib.suppress(TimeoutError):  # Where nothing new comes, this is all.
        async with asyncio.timeout(2):
            async for event in stream:
                if event["kind"] != "hello" and began <= event["time"] < until:
                    tally.count(event, "b")
                    events += event["kind"] == "step"
    await stream.aclose()
    sums = Counter[str]()
    for window in tally.windows.values():
        sums.update({limit: steps for (metric, _, limit), steps in window.sums.items() if metric is metrics.STEP_LIMIT})
    return sums, events


def test_what_binds_a_server_under_load_and_nothing_when_it_is_alone(vllm_server: VllmServer) -> None:
    limits.give(vllm_server, {**limits.FULL, "max_num_seqs": 2}, revision=1)
    seats = _bound(vllm_server, asked=24, callers=12)
    assert seats.most_common(1)[0][0] == SEATS and seats[BUDGET] == seats[BLOCKS] == 0

    limits.give(vllm_server, {**limits.FULL, "max_num_batched_tokens": 16}, revision=2)
    budget = _bound(vllm_server, asked=24, callers=12)
    assert budget.most_common(1)[0][0] == BUDGET and budget[SEATS] == budget[BLOCKS] == 0

    limits.give(vllm_server, {**limits.FULL, "prefill_chunk_size": 16}, revision=3)
    assert _bound(vllm_server, asked=24, callers=12).keys() >= {CHUNK, NO_WORK}

    limits.give(vllm_server, {**limits.FULL, "num_speculative_tokens": 0}, revision=4)
    assert _bound(vllm_server, asked=3, callers=1).keys() == {NO_WORK}
