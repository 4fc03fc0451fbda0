"""A few configurations that stand for a whole space."""

from collections import Counter

from benchmarks.tuner_measures.measured_surface import measured
from controlplane.contract.knobs import MAX_NUM_BATCHED_TOKENS, QUANTIZATION, canonical_json
from tuner.search.space import Space
from tuner.search.well_spread import well_spread

SURFACE = measured(0)


def test_every_value_is_there_about_as_often_and_the_format_is_the_pools() -> None:
    found = well_spread(SURFACE.space, SURFACE.default, 32)
    assert len({canonical_json(one) for one in found} | {canonical_json(SURFACE.default)}) == 33
    assert {one[QUANTIZATION] for one in found} == {SURFACE.default[QUANTIZATION]}
    assert all(canonical_json(one) in SURFACE.seen for one in found)
    often = Counter(one[MAX_NUM_BATCHED_TOKENS] for one in found)
    assert set(often) == set(SURFACE.space.values[MAX_NUM_BATCHED_TOKENS]) and max(often.values()) <= 9


def test_the_first_ones_are_the_same_however_many_follow() -> None:
    assert well_spread(SURFACE.space, SURFACE.default, 32)[:16] == well_spread(SURFACE.space, SURFACE.default, 16)


def test_a_space_of_weight_formats_alone_has_none() -> None:
    space = Space({QUANTIZATION: ["none", "int8"]}, {**SURFACE.default})
    assert well_spread(space, SURFACE.default, 16) == []
