"""Which of the configurations that a twin forecast a study would measure first."""

from itertools import islice
from typing import Any

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import Ratios, kept
from benchmarks.tuner_measures.from_forecasts.twin_first import dealt_anew, first_of, twin_first, with_known_default
from benchmarks.tuner_measures.known_surfaces import configurations
from benchmarks.tuner_measures.measured_surface import LIMITS, OBJECTIVE, OFF, full_weights
from controlplane.contract.knobs import canonical_json
from tuner.search.objective import Assessment

SPACE = full_weights(0).space
TPOT, TTFT = LIMITS


def knobs(**own: Any) -> dict[str, Any]:
    rest = {"max_num_batched_tokens": 64, "prefill_chunk_size": 0, "num_speculative_tokens": 0, "max_num_seqs": 16}
    return SPACE.complete(rest | own)


def key(**own: Any) -> str:
    return canonical_json(knobs(**own))


def told(objective: float, tpot: float = 0.0, ttft: float = 0.0) -> dict[str, float]:
    return {OBJECTIVE: objective, TPOT: tpot, TTFT: ttft}


DEFAULT = Assessment(1.0, {TPOT: 0.2, TTFT: -0.5})
"""Its run was a fifth beyond one limit and far within the other."""
TOLD: Ratios = {
    key(max_num_batched_tokens=16): told(-0.9, tpot=-0.1),
    key(max_num_batched_tokens=128): told(-0.5, tpot=-0.3),
    key(max_num_batched_tokens=256): told(-0.45, tpot=-0.3),
    key(max_num_batched_tokens=1024, num_speculative_tokens=4): told(-0.42, tpot=-0.3),
    key(max_num_batched_tokens=1024, max_num_seqs=4): told(-0.2, tpot=-0.3),
    key(max_num_batched_tokens=512): told(-0.8, tpot=-0.3, ttft=0.8),
}


def test_the_quickest_of_those_that_would_keep_the_limits_comes_first() -> None:
    assert first_of(SPACE, TOLD, DEFAULT, 1) == [key(max_num_batched_tokens=128)]


def test_then_comes_what_is_most_different_and_nearly_as_good() -> None:
    far = key(max_num_batched_tokens=1024, num_speculative_tokens=4)
    assert first_of(SPACE, TOLD, DEFAULT, 2)[1] == far, "not the one farther still, which is much slower"
    assert len(first_of(SPACE, TOLD, DEFAULT, 9)) == 3, "no more than are nearly as good"


def test_where_nothing_would_keep_them_the_nearest_comes_first() -> None:
    over = Assessment(1.0, {TPOT: 9.0, TTFT: -0.5})
    assert first_of(SPACE, TOLD, over, 1) == [key(max_num_batched_tokens=128)]


def test_forecasts_that_are_dealt_anew_are_the_same_ones() -> None:
    dealt = dealt_anew(TOLD, seed=1)
    assert dealt.keys() == TOLD.keys() and dealt != TOLD
    assert sorted(map(str, dealt.values())) == sorted(map(str, TOLD.values()))


def test_what_is_kept_is_of_the_space_and_seeds_draw_a_default_that_has_it() -> None:
    known = {canonical_json(one) for one in configurations(SPACE)}
    for default, both in kept().items():
        assert default in known and len(both) == 2
        for found in both:
            assert found.keys() <= known and all(one.keys() == {OBJECTIVE, *LIMITS} for one in found.values())
    surface = with_known_default(full_weights(7), 7)
    truth = surface.seen[canonical_json(surface.default)]
    assert canonical_json(surface.default) in kept() and truth.objective >= OFF * surface.best()
    assert with_known_default(full_weights(7), 7).default == surface.default


def test_the_twins_points_come_right_after_the_default() -> None:
    surface = with_known_default(full_weights(3), 3)
    search = list(islice(twin_first(1)(surface, 3), 3))
    assert len(search) == 3 and search[0] == surface.default
