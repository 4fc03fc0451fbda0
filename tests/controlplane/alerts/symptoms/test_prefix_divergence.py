"""Where prompts part, on workloads of which it is known."""

import pytest

from controlplane.alerts.symptoms.prefix_divergence import divergence
from controlplane.contract.bodies.workload import WorkloadRequest

BLOCK = 16


def request(*hashes: int, tokens: int | None = None) -> WorkloadRequest:
    return WorkloadRequest(timestamp=0, input_length=tokens or BLOCK * len(hashes), output_length=1, hash_ids=hashes)


def test_an_id_in_the_third_block_parts_all_prompts_there() -> None:
    """Ten prompts of ten blocks share their first two; all that comes behind is computed."""
    found = divergence([request(1, 2, *range(100 * n, 100 * n + 8)) for n in range(1, 11)], BLOCK)
    assert found is not None
    assert (found.position_tokens, found.share_of_requests) == (2 * BLOCK, 0.9)
    assert found.possible_share == pytest.approx(9 * 2 / 100)
    assert found.computed_tokens == 9 * 8 * BLOCK
    told = found.evidence(0.001)
    assert told["costs_s"] == pytest.approx(found.computed_tokens * 0.001) and found.evidence(None)["costs_s"] is None


def test_a_conversation_that_grows_shares_all_that_it_had() -> None:
    found = divergence([request(*range(turn)) for turn in range(1, 6)], BLOCK)
    assert found is not None and found.possible_share == pytest.approx((1 + 2 + 3 + 4) / 15)


def test_without_hashes_nothing_is_said() -> None:
    assert divergence([request(tokens=100), request(tokens=100)], BLOCK) is None
