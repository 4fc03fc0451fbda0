"""The benchmark's stepped vLLM: every request is answered under the limits that were asked for, each time anew."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.tuner_measures.stepped_vllm import STARTED, SteppedVllm
from controlplane.contract.knobs import parse_config
from tests.vllm.real_vllm import MODEL_DIR
from tuner.twin.simulated_engine import Arrival


@pytest.fixture(scope="module")
def vllm(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SteppedVllm]:
    with SteppedVllm(MODEL_DIR, tmp_path_factory.mktemp("stepped")) as engine:
        yield engine


def _arrivals(count: int) -> list[Arrival]:
    chance = random.Random(1)
    prompts = [[chance.randrange(10, 200) for _ in range(chance.randrange(20, 400))] for _ in range(count)]
    return [Arrival(0.01 * place, lambda tokens=tokens: tokens, 8) for place, tokens in enumerate(prompts)]


@pytest.mark.parametrize("limits", [(512, 0, 16, 0), (64, 32, 4, 2)])
def test_every_request_is_answered_under_the_limits_that_were_asked_for(
    vllm: SteppedVllm, limits: tuple[int, ...]
) -> None:
    names = ("max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens")
    served = vllm.serve(_arrivals(10), parse_config(dict(zip(names, limits, strict=True))))
    assert len(served.ttft_s) == len(served.e2e_s) == len(served.tpot_s) == 10
    assert all(0 < first < whole for first, whole in zip(served.ttft_s, served.e2e_s, strict=True))


def test_limits_that_vllm_does_not_run_are_no_figures(vllm: SteppedVllm) -> None:
    beyond = parse_config({"max_num_batched_tokens": 2 * int(str(STARTED["max_num_batched_tokens"]))})
    with pytest.raises(AssertionError):
        vllm.serve(_arrivals(2), beyond)
