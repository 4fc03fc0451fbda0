"""Windows of telemetry as rows for a fit: what they hold costs what it took."""

import numpy as np
import pytest

from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import TwinTask, WhatIfCreate
from tests.tuner.served_pool import TRUTH, Served, traffic
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.prompt_spans import prompt_rows
from tuner.twin.costs.telemetry_fit import rows
from tuner.twin.known_pool import known_of

BUDGET, LENGTH = 256, 8
DRAFTS = Drafts(0.25, (0.85,))
"""Of eight each half is kept, and there are some in a quarter of the steps."""


@pytest.fixture(scope="module")
def task() -> TwinTask:
    config = {"max_num_batched_tokens": BUDGET, "max_num_seqs": 16, "num_speculative_tokens": LENGTH}
    served = Served(traffic(seed=4, requests=330, per_s=3.0), parse_config(config), drafts=DRAFTS)
    return served.task(WhatIfCreate(pool="chat"))


@pytest.mark.slow
def test_with_drafts_a_window_costs_what_it_took(task: TwinTask) -> None:
    """Half of the tokens come of drafts: they are sampled by ones that were not kept, and read no keys of their own."""
    ratios = [TRUTH.seconds(row.terms) / row.seconds for row in rows(task.records, task.windows[2:-4], BUDGET)]
    assert 0.98 < float(np.median(ratios)) < 1.02
    assert min(ratios) > 0.95 and max(ratios) < 1.05


@pytest.mark.slow
def test_with_small_pieces_a_window_costs_what_it_took() -> None:
    """Steps may hold 1,024 tokens, but of each prompt 16 only: each piece begins anew, and reads all before it."""
    config = parse_config({"max_num_batched_tokens": 1024, "prefill_chunk_size": 16, "max_num_seqs": 16})
    short = traffic(seed=4, requests=100, per_s=0.5)
    long = [one.model_copy(update={"input_length": 1200, "hash_ids": []}) for one in short.requests]
    known = known_of(Served(short.model_copy(update={"requests": long}), config).task(WhatIfCreate(pool="chat")))
    ratios = [TRUTH.seconds(row.terms) / row.seconds for row in known.rows(known.until_s)]
    assert 0.98 < float(np.median(ratios)) < 1.02


@pytest.mark.slow
def test_with_drafts_prompts_cost_what_they_took(task: TwinTask) -> None:
    found = prompt_rows(task.records, task.windows[2:-4], BUDGET)
    assert 0.9 < float(np.median([TRUTH.seconds(row.terms) / row.seconds for row in found])) < 1.1


@pytest.mark.slow
def test_drafts_give_as_many_tokens_as_they_did(task: TwinTask) -> None:
    """The engine cuts those that would go beyond an answer's end, so that a few were shorter."""
    drafted, accepted, deliveries = (
        sum(getattr(window, name) for window in task.windows) for name in ("drafted", "accepted", "deliveries")
    )
    found = Drafts.seen(drafted, accepted, deliveries, LENGTH)
    assert found.offered * sum(found.kept[0] ** place for place in range(1, LENGTH + 1)) == pytest.approx(
        accepted / deliveries, rel=0.01
    )
    assert found.kept[0] == pytest.approx(DRAFTS.kept[0], abs=0.03)
    assert found.offered == pytest.approx(DRAFTS.offered, abs=0.04)
