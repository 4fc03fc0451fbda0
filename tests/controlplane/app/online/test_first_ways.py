"""What bound the steps most is lifted first."""

from controlplane.app.online.first_ways import first_ways
from controlplane.contract.step_limits import StepLimit
from controlplane.studies.online.walk import Direction


def test_each_limit_is_lifted_its_own_way_the_most_binding_first() -> None:
    limits = {
        StepLimit.NO_WORK: 400.0,
        StepLimit.KV_MEMORY: 100.0,
        StepLimit.CHUNK: 50.0,
        StepLimit.TOKEN_BUDGET: 200.0,
        StepLimit.MAX_NUM_SEQS: 230.0,
        StepLimit.DRAFTS: 20.0,  # Of 1,000 steps too few to go by.
    }
    assert first_ways(limits) == [
        Direction("max_num_seqs", up=True),
        Direction("max_num_batched_tokens", up=True),
        Direction("max_num_seqs", up=False),
        Direction("prefill_chunk_size", up=True),
    ]
    assert first_ways({StepLimit.DRAFTS: 9.0, StepLimit.NO_WORK: 1.0}) == [
        Direction("num_speculative_tokens", up=False)
    ]
    assert first_ways({}) == []
