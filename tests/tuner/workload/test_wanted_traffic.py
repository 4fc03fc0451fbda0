"""The traffic that a study names is as if its pool had served it; a profile fits the trial node."""

import numpy as np
import pytest

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.planning.replayed_traffic_name import TRAFFIC_PROFILES, TrafficProfile
from controlplane.contract.planning.traffic_figures import figures_of
from tuner.workload.capture import slice_for_node
from tuner.workload.generate import SHAPES
from tuner.workload.wanted_traffic import MOST_REQUESTS, profile_traffic

SPEC = StudyCreate(pool="chat", trial_requests=40, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", TRAFFIC_PROFILES)
def test_a_profile_is_the_same_for_a_seed_and_comes_at_its_rate(shape: str) -> None:
    made = profile_traffic(TrafficProfile(shape, 4.0), SPEC, nodes=2, max_total=None)
    assert made == profile_traffic(TrafficProfile(shape, 4.0), SPEC, nodes=2, max_total=None)
    assert made.nodes == 2 and made.pool == "chat" and len(made.requests) == 1200
    # Gaps have a variation of 5 at most: the mean of 1,200 has a standard error of 0.15 of itself.
    assert figures_of(made).rate_per_s == pytest.approx(4.0, rel=0.45)
    other = profile_traffic(TrafficProfile(shape, 4.0), SPEC.model_copy(update={"seed": 4}), nodes=2, max_total=None)
    assert other.requests != made.requests


@pytest.mark.slow
@pytest.mark.parametrize("shape", TRAFFIC_PROFILES)
@pytest.mark.parametrize("max_total", [512, 4096])
def test_a_profile_is_scaled_to_the_node_not_cut_to_one_length(shape: str, max_total: int) -> None:
    whole, small = (
        profile_traffic(TrafficProfile(shape, 4.0), SPEC, nodes=1, max_total=most) for most in (None, max_total)
    )
    assert max(one.input_length + one.output_length for one in small.requests) <= max_total

    def spread(lengths: list[int]) -> float:
        return float(np.quantile(lengths, 0.9) / np.quantile(lengths, 0.5))

    lengths = [spread([one.input_length for one in made.requests]) for made in (whole, small)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.35), shape
    assert slice_for_node(small, span_s=8, requests=40, max_total=max_total).summary["shortened"] == 0


@pytest.mark.slow
def test_agents_share_more_than_chat_does() -> None:
    shares = {
        shape: figures_of(profile_traffic(TrafficProfile(shape, 4.0), SPEC, nodes=1, max_total=None)).prefix_share
        for shape in SHAPES
    }
    assert shares["agents"] > max(0.5, shares["chat"], shares["rag"], shares["code"])


@pytest.mark.slow
def test_there_is_enough_for_two_slices_and_never_without_end() -> None:
    slow = profile_traffic(TrafficProfile("chat", 0.01), SPEC, nodes=3, max_total=2048)
    assert len(slow.requests) == 4 * 40 * 3
    seen = slice_for_node(slow, span_s=8, requests=40)
    assert slice_for_node(slow, span_s=8, requests=40, apart_from=seen).summary["apart"] is True
    fast = profile_traffic(TrafficProfile("rag", 1000.0), SPEC, nodes=1, max_total=2048)
    assert len(fast.requests) == MOST_REQUESTS
