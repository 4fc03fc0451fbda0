"""The evidence of one metric: at which edges it is counted, when counts are judged, and what is kept for people."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from controlplane.contract.histogram import AXIS_LENGTH, BASE, RELATIVE_ERROR, upper_edge
from controlplane.evidence.exceedance import log_e
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import (
    AT_ONCE,
    QUICK,
    STEADY,
    Counts,
    Held,
    Pace,
    Stream,
    Tally,
    Window,
    _odds,
)

MakeSketch = Callable[..., Sketch]
QS = (0.5, 0.9)


def spread(make: MakeSketch, count: int, first_s: float = 0.1, last_s: float = 1.0) -> Sketch:
    return make(np.geomspace(first_s, last_s, count))


def counts(n_a: int, n_b: int, a: Sequence[int], b: Sequence[int]) -> Counts:
    return Counts(n_a=n_a, n_b=n_b, a=list(a), worse=list(b), not_worse=list(b), faster=list(b))


def share_above(sketch: Sketch, edge: int) -> float:
    return sketch.above(edge) / sketch.count


# -- edges -----------------------------------------------------------------------------------------------------------


def test_edges_stand_at_the_quantiles_of_each_bucket_and_of_all(make_sketch: MakeSketch) -> None:
    stream = Stream.start(QS, 1.5)
    fast, slow, few = spread(make_sketch, 200), spread(make_sketch, 200, 1.0, 10.0), spread(make_sketch, 49, 5.0, 9.0)
    stream.learn_edges([{"short": fast, "long": slow, "rare": few}])
    assert set(stream.edges) == {"", "short", "long"}, "a bucket with fewer than 50 values has none of its own"
    for bucket, sketch in (("short", fast), ("long", slow)):
        for q, edge in zip(QS, stream.edges[bucket], strict=True):
            assert share_above(sketch, edge) <= 1 - q < share_above(sketch, edge - 1)
    whole = Sketch()
    for sketch in (fast, slow, few):
        whole.merge(sketch)
    assert share_above(whole, stream.edges[""][0]) == pytest.approx(0.5, abs=0.02)


def test_fifty_values_are_an_edge_and_fewer_are_none(make_sketch: MakeSketch) -> None:
    for values, has in ((49, False), (50, True)):
        stream = Stream.start(QS, 1.5)
        stream.learn_edges([{"": spread(make_sketch, values)}])
        assert bool(stream.edges) == has


@pytest.mark.parametrize(("pace", "windows"), [(STEADY, 12), (QUICK, 4)])
def test_edges_follow_the_newest_windows_only(make_sketch: MakeSketch, pace: Pace, windows: int) -> None:
    stream = Stream.start(QS, 1.5, pace=pace)
    stream.learn_edges([{"": spread(make_sketch, 200, 10.0, 100.0)}] * 3)
    before = stream.edges[""]
    for taken in range(1, windows + 1):
        stream.learn_edges([{"": spread(make_sketch, 200)}])
        assert len(stream.recent) == min(3 + taken, windows)
    assert upper_edge(stream.edges[""][1]) <= 1.1 < upper_edge(before[1])


def test_windows_are_kept_beyond_their_number_while_they_hold_too_few_values(make_sketch: MakeSketch) -> None:
    stream = Stream.start(QS, 1.5, pace=QUICK)
    stream.learn_edges([{"": spread(make_sketch, 10)}, {}, {"": Sketch()}] * 9)
    assert len(stream.recent) == 6, "six of ten values make the sixty; empty ones are none"
    stream.learn_edges([{"": spread(make_sketch, 100)}] * 4)
    assert len(stream.recent) == 4


def test_the_oldest_window_stays_while_those_after_it_hold_too_few_values(make_sketch: MakeSketch) -> None:
    stream = Stream.start(QS, 1.5, pace=QUICK)
    sizes = [60, 5, 20, 20, 10]  # Without the oldest they are fewer than sixty.
    stream.learn_edges([{"": spread(make_sketch, size)} for size in sizes])
    assert [window[""].count for window in stream.recent] == sizes
    stream.learn_edges([{"": spread(make_sketch, 5)}])
    assert [window[""].count for window in stream.recent] == [5, 20, 20, 10, 5]


def test_where_all_lies_at_the_end_of_the_axis_so_does_the_edge(make_sketch: MakeSketch) -> None:
    stream = Stream.start(QS, 1.5)
    stream.learn_edges([{"": make_sketch(np.full(60, 1e9))}])
    assert stream.edges == {"": [AXIS_LENGTH - 1] * 2}


# -- counting --------------------------------------------------------------------------------------------------------


def test_values_of_both_arms_are_counted_above_the_edges_moved_for_each_claim(make_sketch: MakeSketch) -> None:
    stream = Stream.start([0.5], 1.5)
    control, canary = spread(make_sketch, 100), spread(make_sketch, 90, 0.2, 2.0)
    stream.learn_edges([{"": control}])
    found = stream.count(Window({"b": control}, {"b": canary, "c": canary}), 0.25)
    assert list(found) == ["b", "c"]
    (edge,) = stream.edges[""]
    assert (found["b"].n_a, found["b"].n_b, found["c"].n_a, found["c"].n_b) == (100, 90, 0, 90)
    assert found["b"].a == [control.above(edge)] and found["c"].a == [0]
    assert found["b"].faster == [canary.above(edge)]
    worse, not_worse = found["b"].worse[0], found["b"].not_worse[0]
    moved = sum(value > 1.25 * upper_edge(edge) for value in np.geomspace(0.2, 2.0, 90))
    assert worse <= moved <= not_worse < found["b"].faster[0] and not_worse - worse <= 2, "rounded against the claim"


def test_of_a_prompt_bucket_the_cache_classes_are_taken_together(make_sketch: MakeSketch) -> None:
    one, other = spread(make_sketch, 30), spread(make_sketch, 20, 1.0, 2.0)
    told = Window({"<=2k hit": one, "<=2k miss": other, "<=128 miss": one}, {"<=2k miss": other}, 75, 150).by_bucket()
    assert {name: sketch.count for name, sketch in told.control.items()} == {"<=2k": 50, "<=128": 30}
    assert {name: sketch.count for name, sketch in told.canary.items()} == {"<=2k": 20}
    assert (told.control_tokens, told.canary_tokens) == (75, 150)
    plain = Window({"<=2k": one}, {"<=2k": other})
    assert plain.by_bucket() is plain and (plain.control_tokens, plain.canary_tokens) == (0, 0), "nobody told"
    assert one.count == 30, "what came in is left as it was"


def test_the_ratio_is_of_the_same_quantile_and_none_while_an_arm_has_nothing(make_sketch: MakeSketch) -> None:
    stream = Stream.start([0.5], 1.5)
    assert stream.ratio(0.5) is None
    stream.control.add(spread(make_sketch, 60))
    assert stream.ratio(0.5) is None
    stream.canary.add(spread(make_sketch, 60, 0.2, 2.0))
    assert stream.ratio(0.5) == pytest.approx(2.0, rel=0.05)


def test_beyond_the_axis_there_is_nothing_above(make_sketch: MakeSketch) -> None:
    stream = Stream.start([0.5], 1.5)
    stream.edges = {"": [AXIS_LENGTH - 1]}
    found = stream.count(Window({"": spread(make_sketch, 60)}, {"": make_sketch(np.full(60, 5000.0))}), 9.0)
    assert found[""].worse == found[""].not_worse == found[""].faster == [0]


def test_gaps_may_be_longer_by_what_they_hold_more_tokens(make_sketch: MakeSketch) -> None:
    arm = {"": spread(make_sketch, 50)}
    for per_delivery, stretch in ((False, 1.0), (True, 2.0)):
        stream = Stream.start([0.9], 20.0, per_delivery=per_delivery)
        assert stream.stretch == 1.0
        stream.control_held.add(arm, 75)
        stream.canary_held.add(arm, 150)
        assert stream.stretch == stretch
    stream.canary_held.add(arm, 0)
    assert (stream.canary_held.gaps, stream.canary_held.tokens) == (50, 150), "who told no tokens is left out"


@pytest.mark.parametrize(("gaps", "tokens", "each"), [(0, 0, 1.0), (19, 57, 1.0), (20, 60, 3.0), (40, 30, 1.0)])
def test_tokens_of_a_delivery_are_known_from_twenty_on_and_one_at_least(gaps: int, tokens: int, each: float) -> None:
    assert Held(gaps=gaps, tokens=tokens).each == each


def test_deliveries_count_where_it_is_known_what_they_held(make_sketch: MakeSketch) -> None:
    held = Held()
    held.add({"": spread(make_sketch, 7)}, 0)
    assert held == Held()
    held.add({"a": spread(make_sketch, 3), "b": spread(make_sketch, 2)}, 1)
    assert held == Held(gaps=5, tokens=1)


def test_a_tolerance_of_whole_buckets_moves_an_edge_by_as_many_for_both_claims(make_sketch: MakeSketch) -> None:
    """Rounding would move it by one more or less: 1 % is no whole bucket, and lies between two."""
    stream = Stream.start([0.5], 1.5)
    stream.learn_edges([{"": spread(make_sketch, 1000)}])
    window = Window({}, {"": spread(make_sketch, 1000)})
    for whole in range(1, 9):
        found = stream.count(window, BASE**whole - 1.0)[""]
        assert found.worse == found.not_worse
    between = stream.count(window, 0.01)[""]
    assert between.worse[0] < between.not_worse[0]


def test_edges_are_moved_for_tokens_only_where_that_is_asked_for() -> None:
    stream = Stream.start([0.5], 1.5)
    stream.canary_held = Held(gaps=100, tokens=300)
    assert stream.stretch == 1.0


def test_a_tally_gives_back_the_sketches_that_it_took(make_sketch: MakeSketch) -> None:
    tally, whole = Tally(), Sketch()
    assert tally.quantiles() == {"count": 0, "p50": None, "p95": None, "p99": None}
    for sketch in (spread(make_sketch, 30), Sketch(zero_count=3, minimum=0.0, maximum=0.0), Sketch(relative_error=0.5)):
        tally.add(sketch)
        whole.merge(sketch)
    back = Tally.model_validate_json(tally.model_dump_json()).sketch()
    assert (back.counts == whole.counts).all()
    assert (back.zero_count, back.minimum, back.maximum, back.relative_error) == (3, 0.0, whole.maximum, 0.5)
    assert tally.count == 33 and Tally().relative_error == RELATIVE_ERROR
    told = tally.quantiles()
    assert (told["count"], told["p50"]) == (33, whole.quantile(0.5))
    assert (told["p95"], told["p99"]) == (whole.quantile(0.95), whole.quantile(0.99))


def test_a_fresh_stream_has_shown_nothing() -> None:
    stream = Stream.start([0.5], 1.5)
    assert (stream.is_worse, stream.is_faster, stream.is_not_worse) == (False, False, False)
    assert (stream.edges, stream.stretch, stream.log_worse(), stream.log_faster()) == ({}, 1.0, 0.0, 0.0)
    assert stream == Stream.start([0.5], 1.5, caution=0.0), "no more caution than what scatters asks for"


# -- judging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pace", "full", "ticks"), [(STEADY, 10, 6), (QUICK, 4, 2), (AT_ONCE, 1, 1)])
def test_counts_are_held_back_until_both_arms_have_enough_or_for_so_long(pace: Pace, full: int, ticks: int) -> None:
    for canary, judged in ((full, full), (full - 1, 0)):
        stream = Stream.start([0.5], 1.5, pace=pace)
        stream.take({"b": counts(50, canary, [25], [canary])})
        assert (stream.totals().n_b, stream.seen().n_b) == (judged, canary)
    slow = Stream.start([0.5], 1.5, pace=pace)
    slow.take({"b": counts(50, 1, [25], [1])})
    for _ in range(ticks - 1):
        assert slow.totals().n_b == 0
        slow.take({})
    assert slow.totals().n_b == 1
    alone = Stream.start([0.5], 1.5, pace=pace)
    for _ in range(20):
        alone.take({"b": counts(5, 0, [2], [0])})
    assert (alone.totals().n_a, alone.seen().n_a) == (0, 100), "one arm alone is never judged"


def fed(b: int, ticks: int = 30, **start: object) -> Stream:
    stream = Stream.start([0.5], 1.0, shown=[0], **start)  # type: ignore[arg-type]
    for _ in range(ticks):
        stream.take({"": counts(40, 40, [20], [b])})
    return stream


def test_evidence_goes_to_the_claim_that_the_counts_speak_for() -> None:
    more, less, equal = fed(30), fed(10), fed(20)
    assert more.log_worse() > 5 > 0 > more.log_faster() and more.log_not_worse() < 0
    assert less.log_faster() > 5 > 0 > less.log_worse() and less.log_not_worse() == less.log_faster()
    assert max(equal.log_worse(), equal.log_faster(), equal.log_not_worse()) < 0
    assert more.leaning_worse() == more.log_worse(), "of one level"
    assert Stream.start([0.5], 1.0).log_not_worse() == math.inf, "nothing has to be shown"


@pytest.mark.parametrize("odds", [1.1, 1.25, 1.5, 2.0, 3.0, 5.0])
def test_odds_from_a_tenth_to_five_times_are_shown_as_fast_as_if_they_were_known(odds: float) -> None:
    n, share = 2000, odds / (1.0 + odds)
    b = round(n * share)
    stream = Stream.start([0.5], 1.0)
    stream.take({"": counts(n, n, [n // 2], [b])})
    best = log_e(b, n // 2 + b, n, n, np.log(np.linspace(1.01, 6.0, 500))).max()
    assert max(stream.levels[0].worse) == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize(("above", "is_shown"), [(524, True), (512, False)])
def test_odds_of_a_tenth_more_are_shown_in_time(above: int, is_shown: bool) -> None:
    stream = Stream.start([0.5], 1.0)
    for _ in range(20):
        stream.take({"": counts(1000, 1000, [500], [above])})
    assert (stream.log_worse() > 5) == is_shown


@pytest.mark.parametrize(("a", "b"), [(0, 0), (5, 5), (10, 10), (0, 10), (2, 7)])
def test_the_odds_seen_so_far_are_even_handed_and_finite(a: int, b: int) -> None:
    """Of equal arms they are one, however few; of arms the other way round the inverse."""
    one, other = _odds(counts(10, 10, [a], [b]), 0), _odds(counts(10, 10, [b], [a]), 0)
    assert one * other == pytest.approx(1.0) and math.isfinite(one)
    assert (one > 1) == (b > a) and (one == 1) == (a == b)


def test_two_levels_are_a_mean_for_harm_and_each_for_itself_for_no_harm() -> None:
    stream = Stream.start(QS, 1.0, shown=[0, 1])
    for _ in range(30):
        stream.take({"": counts(40, 40, [20, 4], [10, 12])})
    alone = [stream.levels[place] for place in (0, 1)]
    assert stream.leaning_worse() > stream.log_worse() > 0, "the tail alone shows harm"
    assert stream.log_not_worse() < 0 < max(alone[0].not_worse)


def test_a_rehearsal_teaches_the_scatter_and_proves_nothing() -> None:
    stream = Stream.start([0.5], 1.5)
    for tick in range(20):
        stream.take({"": counts(40, 40, [20], [35 if tick % 2 else 5])}, rehearsal=True)
    assert stream.levels[0].dispersion.phi > 5
    assert stream.log_worse() == stream.log_faster() == 0.0 and stream.totals().n_a == 0


def test_what_scatters_is_learned_while_it_is_judged_beside_the_odds_seen_so_far() -> None:
    """A canary that is steadily slower scatters no more than an equal one: what is steady is no noise."""
    steady, wild = fed(30), Stream.start([0.5], 1.0)
    for tick in range(30):
        wild.take({"": counts(40, 40, [20], [40 if tick % 2 else 20])})
    assert steady.levels[0].dispersion.phi < 1.5 < 3.0 < wild.levels[0].dispersion.phi
    assert wild.log_worse() < steady.log_worse()


def test_the_past_is_paired_once_the_newest_first() -> None:
    stream = Stream.start([0.5], 1.5)
    stream.past = [{"": counts(10, 0, [1], [0])}, {"": counts(20, 0, [2], [0]), "b": counts(5, 0, [3], [0])}]
    found = {"": counts(0, 7, [0], [4])}
    assert stream.pair(found)
    assert (found[""].n_a, found[""].a, found[""].n_b, found[""].faster) == (20, [2], 7, [4])
    assert (found["b"].n_a, found["b"].n_b) == (5, 0)
    assert stream.pair(found) and found[""].n_a == 10
    assert not stream.pair(found)


def test_the_worst_resolution_of_either_arm_is_the_streams() -> None:
    stream = Stream.start([0.5], 1.5)
    stream.canary.add(Sketch(relative_error=0.4))
    assert stream.relative_error == 0.4
    stream.control.add(Sketch(relative_error=0.6))
    assert stream.relative_error == 0.6
