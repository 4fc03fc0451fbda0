"""What a configuration needs of a node's memory: by term, a lower bound, and never less for more."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.knobs import KNOBS, EngineConfig
from controlplane.contract.planning.memory_estimate import Fit, estimate, full_length_requests, refusal
from controlplane.contract.reports.node_memory import NodeMemory

MIB = 2**20
RUNS = EngineConfig(max_num_batched_tokens=512, max_num_seqs=32).knobs()
TOLD = NodeMemory(
    limit_bytes=1000 * MIB,
    weights_bytes=400 * MIB,
    weights_bytes_by_format={"none": 400 * MIB, "int8": 110 * MIB},
    draft_weights_bytes=0,
    kv_cache_memory_bytes=300 * MIB,
    kv_cache_size_tokens=30_000,
    max_model_len=2048,
    activation_bytes_per_token=MIB // 4,
    logits_bytes_per_token=MIB // 2,
    swap_holds_both=True,
)


def wanted(**knobs: Any) -> dict[str, Any]:
    return {**RUNS, **knobs}


def test_each_term_has_its_bytes() -> None:
    found = estimate(TOLD, RUNS, RUNS)
    assert found.terms == {
        "weights": 400 * MIB,
        "KV cache": 300 * MIB,
        "activations": 128 * MIB,  # 512 tokens in the largest step.
        "logits": 16 * MIB,  # 32 requests.
    }
    assert found.needed == 828 * MIB and found.fit is Fit.FITS
    assert found.sentence == (
        "it fits the memory: it needs at least 828 MiB "
        "(weights 400 MiB, KV cache 300 MiB, activations 128 MiB) of 1000 MiB"
    )


def test_of_activations_and_logits_the_greater_counts() -> None:
    drafts = {"max_num_batched_tokens": 100, "num_speculative_tokens": 3}
    found = estimate(TOLD, RUNS, wanted(**drafts))  # 100 tokens, all of which want logits.
    assert (found.activations, found.logits, found.needed) == (25 * MIB, 50 * MIB, 750 * MIB)
    assert "logits 50.0 MiB" in found.sentence and "activations" not in found.sentence


SIZED = TOLD.model_copy(update={"kv_cache_least_bytes": 20 * MIB, "runtime_bytes": 70 * MIB})
"""Its KV cache is what is left of 1000 MiB, and holds one request at least."""


@pytest.mark.parametrize(
    ("tokens", "cache", "said"),
    [
        (512, 300, "KV cache 300 MiB, runtime 70.0 MiB, activations 128 MiB"),
        (1024, 274, "KV cache 274 MiB instead of 300 MiB, runtime 70.0 MiB, activations 256 MiB"),
        (2040, 20, "KV cache 20.0 MiB instead of 300 MiB, runtime 70.0 MiB, activations 510 MiB"),
    ],
)
def test_a_cache_of_the_room_that_is_left_gives_way(tokens: int, cache: int, said: str) -> None:
    found = estimate(SIZED, RUNS, wanted(max_num_batched_tokens=tokens))
    assert (found.kv_cache, found.fit) == (cache * MIB, Fit.FITS) and said in found.sentence
    assert refusal(SIZED, RUNS, wanted(max_num_batched_tokens=tokens)) is None


def test_a_cache_of_the_room_that_is_left_does_not_go_below_its_least() -> None:
    found = refusal(SIZED, RUNS, wanted(max_num_batched_tokens=2048))
    assert found is not None and found.knob == "max_num_batched_tokens"
    assert "it needs at least 1002 MiB (weights 400 MiB, KV cache 20.0 MiB instead of 300 MiB, " in found.problem
    assert found.mend == "at most 2040, or give its engine more memory"
    assert estimate(SIZED.model_copy(update={"limit_bytes": None}), RUNS, RUNS).kv_cache == 300 * MIB


def test_a_draft_models_weights_are_a_term_of_their_own() -> None:
    found = estimate(TOLD.model_copy(update={"draft_weights_bytes": 50 * MIB}), RUNS, RUNS)
    assert found.terms["draft weights"] == 50 * MIB and found.needed == 878 * MIB


def test_while_weights_are_swapped_old_and_new_are_held_and_no_step_runs() -> None:
    found = estimate(TOLD, RUNS, wanted(quantization="int8"))
    assert found.needed == (110 + 300 + 400) * MIB and found.changes_most
    assert "the old weights beside the new 400 MiB" in found.sentence and "activations" not in found.sentence
    restarts = TOLD.model_copy(update={"swap_holds_both": False})
    assert estimate(restarts, RUNS, wanted(quantization="int8")).needed == (110 + 300 + 128) * MIB


@pytest.mark.parametrize(
    ("knobs", "tokens"),
    [
        ({"max_num_batched_tokens": 4096}, 4096),
        ({"max_num_batched_tokens": 4096, "prefill_chunk_size": 64}, 32 * 64),
        ({"max_num_batched_tokens": 65536}, 65536),
        ({"max_num_batched_tokens": 65536, "max_num_seqs": 2}, 2 * 2048),  # As long as a request may be.
        ({"max_num_batched_tokens": 4096, "prefill_chunk_size": 1, "num_speculative_tokens": 3}, 32 * 4),
    ],
)
def test_the_largest_step_is_what_the_knobs_let_be(knobs: dict[str, Any], tokens: int) -> None:
    assert estimate(TOLD, RUNS, wanted(**knobs)).activations == tokens * MIB // 4


@pytest.mark.parametrize(
    ("knobs", "rows"),
    [
        ({"num_speculative_tokens": 4}, 32 * 5),
        ({"num_speculative_tokens": 4, "max_num_batched_tokens": 100}, 100),
        ({"num_speculative_tokens": [[4, 8], [16, 2]]}, 16 * 3),
        ({"num_speculative_tokens": [[4, 8], [16, 2]], "max_num_seqs": 3}, 3 * 9),
        ({"num_speculative_tokens": [[4, 0], [16, 8]], "max_num_seqs": 4}, 4),  # The second stage is never reached.
    ],
)
def test_logits_are_of_requests_and_their_drafts(knobs: dict[str, Any], rows: int) -> None:
    assert estimate(TOLD, RUNS, wanted(**knobs)).logits == rows * MIB // 2


def test_what_cannot_fit_names_the_knob_the_bytes_and_the_mend() -> None:
    found = refusal(TOLD, RUNS, wanted(max_num_batched_tokens=2048, max_num_seqs=40))
    assert found is not None and found.knob == "max_num_batched_tokens"
    assert "it needs at least 1.18 GiB" in found.problem and "of 1000 MiB" in found.problem
    assert found.mend == "at most 1200, or give its engine more memory or a smaller KV cache"
    for tokens, fits in ((1200, True), (1201, False)):
        assert (refusal(TOLD, RUNS, wanted(max_num_batched_tokens=tokens, max_num_seqs=40)) is None) is fits


def test_a_format_that_cannot_fit_names_those_that_do() -> None:
    large = TOLD.model_copy(
        update={"weights_bytes_by_format": {"none": 400 * MIB, "int8": 290 * MIB, "int4": 310 * MIB}}
    )
    large = large.model_copy(update={"limit_bytes": 1005 * MIB})
    found = refusal(large, RUNS, wanted(quantization="int4"))
    assert found is not None and found.knob == "quantization"
    assert found.mend.startswith("one of none, int8, or ")


def test_a_whole_prefill_that_cannot_fit_is_cut_by_its_chunk() -> None:
    runs = wanted(max_num_batched_tokens=4096, prefill_chunk_size=16)
    found = refusal(TOLD, runs, {**runs, "prefill_chunk_size": 0})
    assert found is not None and found.knob == "prefill_chunk_size"
    assert found.mend.startswith("at most 37, ")


def test_nothing_helps_where_even_the_least_is_too_much() -> None:
    small = TOLD.model_copy(update={"limit_bytes": 600 * MIB})
    found = refusal(small, RUNS, wanted(max_num_seqs=4096))
    assert found is not None and found.mend == "give its engine more memory or a smaller KV cache"


def test_what_needs_no_more_than_what_runs_is_not_refused() -> None:
    small = TOLD.model_copy(update={"limit_bytes": 600 * MIB})
    assert estimate(small, RUNS, wanted(max_num_batched_tokens=256)).fit is Fit.DOES_NOT_FIT
    assert refusal(small, RUNS, wanted(max_num_batched_tokens=256)) is None
    assert refusal(small, RUNS, RUNS) is None


@pytest.mark.parametrize("name", ["limit_bytes", "weights_bytes", "kv_cache_memory_bytes", "logits_bytes_per_token"])
def test_what_is_not_told_is_said_to_be_so(name: str) -> None:
    found = estimate(TOLD.model_copy(update={name: None}), RUNS, RUNS)
    assert found.fit is Fit.NOT_KNOWN and found.sentence.startswith("whether it fits the memory is not known")
    assert "not told: " in found.sentence


def test_a_format_of_unknown_size_and_a_knob_that_nobody_reads_are_not_known() -> None:
    assert estimate(TOLD, RUNS, wanted(quantization="fp8")).weights is None
    assert estimate(TOLD, {"quantization": "none"}, {}).activations is None
    assert estimate(NodeMemory(), {}, {}).sentence.count("not told") == 1


def test_what_is_known_can_be_too_much_by_itself() -> None:
    found = estimate(NodeMemory(limit_bytes=MIB, kv_cache_memory_bytes=2 * MIB), RUNS, RUNS)
    assert found.fit is Fit.DOES_NOT_FIT


def test_requests_of_full_length_in_the_cache() -> None:
    assert full_length_requests(TOLD) == 14
    assert full_length_requests(TOLD.model_copy(update={"max_model_len": None})) is None


FIGURE = st.none() | st.integers(0, 2**40)
MEMORY = st.builds(
    NodeMemory,
    limit_bytes=FIGURE,
    weights_bytes=FIGURE,
    weights_bytes_by_format=st.dictionaries(st.sampled_from(KNOBS["quantization"].choices), st.integers(0, 2**40)),
    draft_weights_bytes=FIGURE,
    kv_cache_memory_bytes=FIGURE,
    kv_cache_least_bytes=FIGURE,
    max_model_len=st.none() | st.integers(1, 2**17),
    activation_bytes_per_token=FIGURE,
    logits_bytes_per_token=FIGURE,
    runtime_bytes=FIGURE,
    swap_holds_both=st.none() | st.booleans(),
)
SCHEDULE = st.dictionaries(st.integers(1, 4096), st.integers(0, 32), min_size=1, max_size=4).map(
    lambda found: [list(pair) for pair in sorted(found.items())]
)
CONFIG = st.fixed_dictionaries(
    {
        "max_num_batched_tokens": st.integers(1, 65536),
        "prefill_chunk_size": st.integers(0, 65536),
        "max_num_seqs": st.integers(1, 4096),
        "num_speculative_tokens": st.integers(0, 32) | SCHEDULE,
        "quantization": st.sampled_from(KNOBS["quantization"].choices),
    }
)
NUMBERS = ("max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens")


@given(MEMORY, CONFIG, CONFIG)
def test_never_negative_and_as_much_as_its_terms(memory: NodeMemory, runs: dict[str, Any], new: dict[str, Any]) -> None:
    found = estimate(memory, runs, new)
    known = [value for value in found.terms.values() if value is not None]
    lesser = min(found.activations or 0, found.logits or 0)  # Never held beside the greater.
    assert all(value >= 0 for value in known) and found.needed >= sum(known) - lesser
    assert found.fit in Fit and found.sentence


@given(MEMORY, CONFIG, CONFIG, st.sampled_from(NUMBERS), st.integers(0, 65536))
def test_more_of_a_knob_never_needs_less(
    memory: NodeMemory, runs: dict[str, Any], new: dict[str, Any], name: str, more: int
) -> None:
    knob = KNOBS[name]
    assert knob.minimum is not None and knob.maximum is not None
    low, high = sorted((new[name] if isinstance(new[name], int) else 0, max(knob.minimum, min(more, knob.maximum))))
    if name == "prefill_chunk_size" and low == 0:
        low, high = high, 0  # Off is the largest of all.
    less, most = ({**new, name: value} for value in (low, high))
    assert estimate(memory, runs, less).needed <= estimate(memory, runs, most).needed


@given(MEMORY, CONFIG, CONFIG)
def test_refused_is_only_what_needs_more_than_there_is_and_than_what_runs(
    memory: NodeMemory, runs: dict[str, Any], new: dict[str, Any]
) -> None:
    needed, now = estimate(memory, runs, new).needed, estimate(memory, runs, runs).needed
    limit = memory.limit_bytes
    found = refusal(memory, runs, new)
    assert (found is not None) is (limit is not None and needed > limit and needed > now)
    if found is not None:
        assert new[found.knob] != runs[found.knob]
        if found.mend.startswith("at most "):
            most = int(found.mend.removeprefix("at most ").partition(",")[0])
            assert limit is not None and estimate(memory, runs, {**new, found.knob: most}).needed <= limit
