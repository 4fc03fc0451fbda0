"""Who has measured everything takes the best where nothing is noisy; else gain times probability stays inside."""

from dataclasses import replace

import pytest

from benchmarks.tuner_measures.known_surfaces import Surface, Truth, configurations, flat
from benchmarks.tuner_measures.noisy_oracle import choices
from controlplane.contract.knobs import canonical_json

DRAFTS = "num_speculative_tokens"


def surface(noise: float, most: Truth) -> Surface:
    """Drafts take half the time, however many, and keep the limit by far; with the most of them it is `most`."""
    plain = flat(noise)
    truths = {0: Truth(2.0, {"itl:0.99": 0.5}), max(plain.space.values[DRAFTS]): most}
    table = {
        canonical_json(knobs): truths.get(knobs[DRAFTS], Truth(1.0, {"itl:0.99": 0.5}))
        for knobs in configurations(plain.space)
    }
    return replace(plain, default=plain.default | {DRAFTS: 0}, seen=table, fresh=table)


@pytest.mark.parametrize("most", [Truth(0.95, {"itl:0.99": 0.7}), Truth(0.95, {"itl:0.99": 1.01})])
def test_without_noise_it_has_no_regret(most: Truth) -> None:
    one = surface(1e-9, most)
    assert [one.regret(chosen) for chosen in choices(one, 1, 0)] == pytest.approx([0.0, 0.0], abs=1e-6)


@pytest.mark.slow
def test_of_many_a_little_beyond_a_limit_one_seems_to_hold_it_and_gain_times_probability_doubts_that() -> None:
    one = surface(0.1, Truth(0.9, {"itl:0.99": 1.05}))
    drawn = [choices(one, 2, seed) for seed in range(4)]
    fastest, worthiest = (sum(one.regret(own) for own in chosen) for chosen in zip(*drawn, strict=True))
    assert fastest > 2.9 > 1.1 > worthiest
