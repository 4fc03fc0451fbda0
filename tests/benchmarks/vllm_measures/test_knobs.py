import random

from agents.backends.vllm.live_change import obstacles
from benchmarks.vllm_measures.knobs import BASE, differences, drawn
from benchmarks.vllm_measures.vllm_server import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from controlplane.contract.knobs import parse_config

_TOLD = {
    "knobs": BASE,
    "live": list(BASE),
    "capacity": {
        "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "max_num_seqs": MAX_NUM_SEQS,
        "num_speculative_tokens": DRAFTS,
    },
    # A scheduler with drafts does not work with less.
    "floor": {"max_num_batched_tokens": 1 + DRAFTS, "prefill_chunk_size": 1 + DRAFTS},
}


def test_every_drawn_configuration_is_another_one_and_live() -> None:
    rng = random.Random(1)
    knobs = BASE
    for _ in range(500):
        before, knobs = knobs, drawn(rng, knobs)
        assert knobs != before
        assert obstacles(parse_config(knobs), _TOLD) == []


def test_one_seed_draws_the_same_configurations() -> None:
    first, second = random.Random(7), random.Random(7)

    assert [drawn(first, BASE) for _ in range(20)] == [drawn(second, BASE) for _ in range(20)]


def test_differences_name_what_runs_otherwise() -> None:
    told = {"knobs": {**BASE, "max_num_seqs": 3}}

    assert differences(told, BASE) == {"max_num_seqs": 3}
    assert differences(told, {"prefill_chunk_size": 0}) == {}
    assert differences({}, {"max_num_seqs": 3}) == {"max_num_seqs": None}
