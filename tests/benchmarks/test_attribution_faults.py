"""A fault of the benchmark from its injection to what the incident names: the real store, evaluator and diagnosis."""

import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.attribution_measures import engine_faults, engine_nodes, vllm_faults
from benchmarks.attribution_measures.engine_requests import EngineWorld, drawn_request
from benchmarks.attribution_measures.named_first import SIMULATED, injected, made_past, of, of_engines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past") / "service"
    made_past(SIMULATED, folder, seed=5)
    return folder


@pytest.mark.parametrize("kind", ["config", "gpu"])
def test_stage_place_and_cause_of_a_strong_fault_are_named(past: Path, tmp_path: Path, kind: str) -> None:
    found = injected(SIMULATED, past, tmp_path / "fault", SIMULATED.kinds[kind](random.Random(3)), seed=3)
    assert (found.stage, found.place, found.cause) == (True, True, True), found


def test_there_are_eighteen_kinds_and_each_says_what_is_right() -> None:
    faults = [made(random.Random(1)) for made in SIMULATED.kinds.values()]
    assert len(faults) == 18 and all(fault.stages and fault.cause for fault in faults)
    assert len(of_engines().kinds) == 9 and of_engines().kinds.keys() <= SIMULATED.kinds.keys()
    assert len(vllm_faults.KINDS) == 9 and vllm_faults.KINDS.keys() <= SIMULATED.kinds.keys()


def test_real_engines_are_sent_prompts_that_hit_or_that_say_the_same_again() -> None:
    """Of one length: those that hit begin alike for four fifths, the others with nothing that another has."""
    chance = np.random.default_rng(4)

    def sent(hit_share: float, repeats: float) -> list[list[int]]:
        world = EngineWorld(lengths=((400, 1.0),), hit_share=hit_share, repeats=repeats)
        return [drawn_request(world, chance).tokens for _ in range(20)]

    assert len({tuple(tokens[:320]) for tokens in sent(1.0, 0.5)}) == 1
    assert len({tuple(tokens[:32]) for tokens in sent(0.0, 1.0)}) == 20
    for tokens in sent(0.0, 1.0):
        assert tokens[-100:-12] == tokens[-88:]  # The phrase has twelve tokens.


def test_a_real_engine_tells_what_its_requests_and_steps_took_on_its_own_clock() -> None:
    """Each request once, its parts adding up; long prompts that are new to it are computed, and nothing comes late."""
    start_s, told = 1000.0, []
    node = engine_nodes.engine_node("gpu-1", np.random.default_rng(1), start_s)
    for window in range(4):
        now_s = start_s + 5.0 * window
        found = node.window(now_s, engine_faults.world(), [now_s + 0.5 * place for place in range(8)])
        assert all(event["time"] < now_s + 5.0 for event in found)
        told += found
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    finished = [event for event in told if event["kind"] == "finished"]
    assert len(finished) > 20 and len({event["request_id"] for event in finished}) == len(finished)
    for event in finished:
        parts = ("receive", "tokenize", "queue", "prefill", "decode", "send", "unaccounted")
        assert sum(event[part] for part in parts) == pytest.approx(event["e2e"])
        assert event["ttft"] < event["e2e"] and event["unaccounted"] == pytest.approx(0.0, abs=1e-6)
    assert {bool(event["cached_tokens"]) for event in finished} == {False, True}
    steps = [event for event in told if event["kind"] == "step"]
    assert sum(event["batched_tokens"] for event in steps) > sum(event["output_tokens"] for event in finished)


def test_shares_come_with_wilsons_interval() -> None:
    assert of(19, 20) == "19 of 20 (76 to 99 %)"
