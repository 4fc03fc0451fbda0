"""Goodput: which requests count, and how sure a share of them is."""

import math

import numpy as np
import pytest

from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import WhatIfCreate
from tests.tuner.served_pool import Served, traffic
from tuner.twin.answer.good_share import good_requests, measured_values, share_of
from tuner.twin.forecast import forecast
from tuner.workload.rescale import scale_rate

NONE = math.nan
VALUES = {
    "ttft": np.array([0.2, 0.9, 0.2, NONE]),
    "tpot": np.array([0.01, 0.01, NONE, NONE]),
    "e2e": np.array([1.0, 2.0, 0.2, NONE]),
}


def test_a_request_is_good_within_all_limits_and_one_that_was_refused_is_not() -> None:
    assert share_of(VALUES, {}) == 0.75
    assert share_of(VALUES, {"ttft": 0.5}) == 0.5
    assert share_of(VALUES, {"ttft": 0.2, "e2e": 0.5}) == 0.25
    assert share_of(VALUES, {"tpot": 0.005}) == 0.25, "one token has no time per output token"


def test_the_interval_holds_the_runs_and_twice_the_error_within_none_and_all() -> None:
    told = good_requests([0.8, 0.9, 0.95], 0.02, per_s=10.0)
    assert (told.share, told.per_s) == (0.9, 9.0)
    assert (told.low, told.high) == (pytest.approx(0.76), pytest.approx(0.99))
    assert good_requests([0.02, 0.99], -0.5, 1.0).low == 0.0 and good_requests([0.02, 0.99], -0.5, 1.0).high == 1.0


@pytest.mark.slow
def test_goodput_is_forecast_within_its_interval_of_what_it_then_is() -> None:
    """At a third more load than was seen, fewer are good; those that truly are lie in the interval."""
    config = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 2})
    served = Served(traffic(seed=5, requests=330, per_s=3.0), config)
    asked = WhatIfCreate(pool="chat", load=1.3, good={"ttft": 0.6, "tpot": 0.03})
    answer = forecast(served.task(asked))
    truth = Served(scale_rate(served.workload, 1.3), config, seed=2)
    late_s = truth.workload.requests[-1].timestamp / 5000.0
    told = truth.task(asked).records
    records = [one for one in told if (one.arrival - truth.workload.start).total_seconds() > late_s]
    share = share_of(measured_values(records, ["ttft", "tpot", "e2e"]), asked.good)
    now, then = answer.as_is.good, answer.changed.good
    assert now is not None and then is not None and answer.good_error is not None
    assert then.low - 0.05 <= share <= then.high + 0.05 and then.share < now.share - 0.02
    assert then.per_s == pytest.approx(then.share * 3.9, rel=0.15)
    assert "Good are" in answer.summary
    assert now.per_s == pytest.approx(now.share * 3.0, rel=0.15)


def test_nodes_that_are_added_cost_as_much_more_a_token() -> None:
    config = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})
    served = Served(traffic(seed=5, requests=330, per_s=3.0), config)
    answer = forecast(served.task(WhatIfCreate(pool="chat", replicas=3)))
    assert answer.as_is.good is None and answer.good_error is None
    dear, cheap = answer.changed.node_hours_per_million, answer.as_is.node_hours_per_million
    assert dear is not None and cheap is not None and dear == pytest.approx(3 * cheap)
