"""The time of prompts, as rows for a fit: what it holds costs what it took."""

import numpy as np
import pytest

from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import WhatIfCreate
from tests.tuner.served_pool import TRUTH, Served, traffic
from tuner.twin.costs.nonnegative_fit import fit
from tuner.twin.costs.prompt_spans import prompt_rows
from tuner.twin.costs.telemetry_fit import rows

BUDGET = 256
CONFIG = parse_config({"max_num_batched_tokens": BUDGET, "max_num_seqs": 16})


@pytest.mark.slow
@pytest.mark.parametrize("per_s", [1.0, 4.0, 7.0])
def test_rows_cost_what_they_took(per_s: float) -> None:
    """Of a pool whose costs are known, idle to busy: chunks, prompts one through the other, decodes beside them."""
    task = Served(traffic(seed=6, requests=300, per_s=per_s), CONFIG).task(WhatIfCreate(pool="chat"))
    found = prompt_rows(task.records, task.windows, BUDGET)
    assert len(found) >= 0.8 * len([one for one in task.windows if one.steps])
    ratios = [TRUTH.seconds(row.terms) / row.seconds for row in found]
    assert 0.9 < float(np.median(ratios)) < 1.1
    assert sum(0.7 < ratio < 1.4 for ratio in ratios) > 0.9 * len(ratios)


@pytest.mark.slow
def test_they_tell_a_prompts_part_where_windows_are_alike() -> None:
    """A request a second, all alike: each window has five of all there is, and a fit to windows alone may give any part
    the other's price."""
    steady = traffic(seed=6, requests=200, per_s=1.0)
    alike = [
        one.model_copy(update={"timestamp": 1000.0 * place, "input_length": 200, "output_length": 60, "hash_ids": []})
        for place, one in enumerate(steady.requests)
    ]
    served = Served(steady.model_copy(update={"requests": alike}), CONFIG)
    task = served.task(WhatIfCreate(pool="chat"))
    windows = task.windows[2:-4]
    found = fit(rows(task.records, windows, BUDGET) + prompt_rows(task.records, windows, BUDGET)).cost
    prompt = (1.0, 200.0, 1.0, 1.0, 200.0, 200 * 100.5)
    assert found.seconds(prompt) == pytest.approx(TRUTH.seconds(prompt), rel=0.1)
