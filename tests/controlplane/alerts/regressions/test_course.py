"""A course says the same whether its ticks came at once or one by one; what is missing or closed says nothing."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from controlplane.alerts.regressions.baseline import FLEET
from controlplane.alerts.regressions.course import (
    APART,
    PLACE,
    TAIL,
    TOO_FEW_TICKS,
    Course,
    Past,
    Shown,
    course,
    strongest,
)
from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import yardstick
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE
from controlplane.evidence.sketch import Sketch
from controlplane.evidence.wander import TAUS_TICKS, Earlier, wander_of

METRIC, TICKS = "prefill", 1000
START_S = 50_000.0


def tail(values: np.ndarray) -> Tail:
    places = np.ceil(np.log2(values) * 2**SCALE).astype(np.int64) - 1 - AXIS_MIN
    return Tail.of(Sketch(counts=np.bincount(places, minlength=AXIS_LENGTH)))


def served(seed: int, factors: Mapping[str, float], first: int = 0) -> Iterator[Window]:
    """Windows for ever; factors multiply a bucket's latencies and may change while it runs."""
    random, place = np.random.default_rng(seed), first
    while True:
        tails = {name: tail(0.2 * by * random.lognormal(0.0, 0.5, 40)) for name, by in factors.items()}
        yield Window(START_S + 5.0 * place, 1.0, {METRIC: tails})
        place += 1


def past(windows: list[Window], usual: int = TICKS) -> Past:
    return Past.of(yardstick(Stack.of(windows[:usual], METRIC)), Stack.of(windows, METRIC), START_S + 5.0 * usual)


def never(_: float) -> bool:
    return False


@pytest.fixture(scope="module")
def windows() -> list[Window]:
    found = served(1, {"a": 1.0, "b": 3.0})
    return [next(found) for _ in range(TICKS + 200)]


def gain(found: Course | None) -> float:
    """What its level has to show for the likeliest rise."""
    assert found is not None
    shown = found.shown(-math.inf)[PLACE]
    return 0.0 if shown is None else shown.gain


def made(windows: list[Window], bucket: str = FLEET) -> Course:
    found = course(past(windows), bucket, never)
    assert found is not None
    return found


@pytest.mark.parametrize("bucket", [FLEET, "a"])
def test_tick_by_tick_is_as_at_once(windows: list[Window], bucket: str) -> None:
    whole, grown = made(windows, bucket), made(windows[:TICKS], bucket)
    for window in windows[TICKS:]:
        grown.take(window)
    for name, line in whole.lines.items():
        assert grown.lines[name].sums.ticks == line.sums.ticks
        assert grown.lines[name].sums.now == pytest.approx(line.sums.now, rel=1e-9, abs=1e-9)


def test_a_window_that_is_known_is_not_taken_twice(windows: list[Window]) -> None:
    one = made(windows[:TICKS])
    for window in windows[TICKS - 5 : TICKS]:
        one.take(window)
    assert all(line.sums.ticks == TICKS for line in one.lines.values())


def test_lines_are_of_what_the_stream_is(windows: list[Window]) -> None:
    assert set(made(windows).lines) == {PLACE, TAIL}
    assert set(made(windows, "a").lines) == {PLACE, APART}
    alone = [Window(one.start_s, 1.0, {METRIC: {"a": one.tails[METRIC]["a"]}}) for one in windows]
    assert set(made(alone, "a").lines) == {PLACE}, "all others are none"


def test_caution_goes_by_pairs_for_the_place_of_all_alone(windows: list[Window]) -> None:
    """As if what the lines show had been seen for days."""
    for bucket, trusting in ((FLEET, {PLACE}), ("a", set[str]())):
        lines = made(windows, bucket).lines
        before = {
            name: [Earlier(one.scale, 8.0 * one.pairs, one.square - one.sampling) for one in line.seen]
            for name, line in lines.items()
        }
        known = course(past(windows), bucket, never, before)
        assert known is not None
        for name, line in known.lines.items():
            floors = [0.0] * (len(TAUS_TICKS) - 2) + list(line.scan.wander.variances[-2:])
            fits = {by: wander_of(line.seen, floors, before[name], by_pairs=by) for by in (False, True)}
            assert fits[False].tick > fits[True].tick
            assert line.scan.wander == fits[name in trusting]


def test_a_young_or_thin_past_has_no_course(windows: list[Window]) -> None:
    assert course(past(windows[: TOO_FEW_TICKS - 1], TOO_FEW_TICKS - 1), FLEET, never) is None
    assert course(past(windows), "unheard of", never) is None
    assert course(past(windows), FLEET, lambda at_s: True) is None


def test_a_rise_is_shown_with_its_onset_and_what_is_closed_or_unjudged_is_not(windows: list[Window]) -> None:
    slow = served(2, {"a": 1.6, "b": 3.0 * 1.6}, TICKS)
    risen = [*windows[:TICKS], *(next(slow) for _ in range(40))]
    shown = made(risen).shown(-math.inf)[PLACE]
    assert shown is not None and shown.log_evidence > 20.0 and shown.rise > 0.3
    assert shown.onset_s == pytest.approx(START_S + 5.0 * TICKS, abs=30.0)
    assert made(risen).shown(START_S + 5.0 * (TICKS + 39))[PLACE] is None, "it had begun before that"
    begun_s = START_S + 5.0 * TICKS
    assert gain(made(risen)) > 15.0
    assert gain(course(past(risen), FLEET, lambda at_s: at_s >= begun_s)) < 4.0
    unjudged = made(windows[:TICKS])
    for window in risen[TICKS:]:
        unjudged.take(window, judged=False)
    assert gain(unjudged) < 4.0


def test_one_bucket_that_rises_stands_apart_and_the_other_does_not(windows: list[Window]) -> None:
    slow = served(3, {"a": 1.6, "b": 3.0}, TICKS)
    risen = [*windows[:TICKS], *(next(slow) for _ in range(40))]
    mine, other = made(risen, "a").shown(-math.inf)[APART], made(risen, "b").shown(-math.inf)[APART]
    assert mine is not None and mine.log_evidence > 20.0
    assert other is None or other.log_evidence < 5.0


def test_a_part_of_the_requests_is_the_tails_to_tell(windows: list[Window]) -> None:
    random, changed = np.random.default_rng(4), list(windows[:TICKS])
    for place in range(TICKS, TICKS + 60):
        tails = {}
        for name, by in {"a": 1.0, "b": 3.0}.items():
            hit = np.where(random.random(40) < 0.05, 4.0, 1.0)
            tails[name] = tail(0.2 * by * hit * random.lognormal(0.0, 0.5, 40))
        changed.append(Window(START_S + 5.0 * place, 1.0, {METRIC: tails}))
    shown = made(changed).shown(-math.inf)
    by_tail, by_place = shown[TAIL], shown[PLACE]
    assert by_tail is not None and by_tail.log_evidence > 20.0
    assert by_place is None or by_place.log_evidence < by_tail.log_evidence
    going_over = made(changed[:TICKS])
    for window in changed[TICKS:]:
        going_over.take(window, mixed=True)
    learnt = course(past(changed), FLEET, never, is_mixed=lambda starts: starts >= START_S + 5.0 * TICKS)
    for one in (going_over, learnt):
        assert one is not None and one.shown(-math.inf)[TAIL] is None
        assert one.lines[PLACE].sums.now[0, -1] == pytest.approx(made(changed).lines[PLACE].sums.now[0, -1])


@pytest.mark.parametrize("factor", [1.35, 1.45])
def test_a_shift_of_all_is_not_the_tails_to_tell(windows: list[Window], factor: float) -> None:
    """Common noise that went far: the line by place knows how far it goes, the tail's does not."""
    shifted = served(5, {"a": factor, "b": 3.0 * factor}, TICKS)
    by_tail = made([*windows[:TICKS], *(next(shifted) for _ in range(60))]).shown(-math.inf)[TAIL]
    assert by_tail is None or by_tail.log_evidence < 5.0


def test_gaps_without_traffic_say_nothing(windows: list[Window]) -> None:
    holey = [window for place, window in enumerate(windows[:TICKS]) if not 300 <= place < 500]
    one = made(holey)
    assert one.lines[PLACE].sums.ticks == TICKS
    later = windows[TICKS + 100]
    one.take(later)
    assert one.lines[PLACE].sums.ticks == TICKS + 101
    assert gain(one) < 4.0


def test_wide_windows_have_wide_ticks(windows: list[Window]) -> None:
    wide = [Window(60.0 * place, 1.0, window.tails) for place, window in enumerate(windows)]
    found = course(Past.of(yardstick(Stack.of(wide, METRIC)), Stack.of(wide, METRIC), 60.0 * TICKS), FLEET, never)
    assert found is not None and found.width_s == 60.0 and found.lines[PLACE].sums.ticks == len(wide)


def test_it_is_back_when_it_is_near_the_usual_and_not_before(windows: list[Window]) -> None:
    slow, usual = served(5, {"a": 1.6, "b": 3.0 * 1.6}, TICKS), served(6, {"a": 1.0, "b": 3.0}, TICKS + 60)
    one, begun_s = made(windows[:TICKS]), START_S + 5.0 * TICKS
    for _ in range(60):
        one.take(next(slow))
    shown = one.shown(-math.inf)[PLACE]
    assert shown is not None
    assert one.back(PLACE, begun_s, shown.rise) < math.log(100.0)
    for _ in range(12):
        one.take(next(usual))
    assert one.back(PLACE, begun_s, shown.rise) >= math.log(100.0)
    assert one.back("no line", begun_s, shown.rise) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [FLEET, "a"])
def test_the_effect_is_told_with_an_interval_that_holds_it(windows: list[Window], bucket: str) -> None:
    held, factors = 0, []
    for seed in range(12):
        slow, one = served(100 + seed, {"a": 1.6, "b": 3.0 * 1.6}, TICKS), made(windows[:TICKS], bucket)
        for _ in range(48):
            one.take(next(slow))
        found = one.effect(PLACE, START_S + 5.0 * TICKS)
        assert found is not None and found.low < found.factor < found.high
        held += found.low <= 1.6 <= found.high
        factors.append(found.factor)
    assert held >= 11 and np.mean(factors) == pytest.approx(1.6, rel=0.05)


def test_a_tail_tells_no_factor_and_what_is_not_watched_nothing(windows: list[Window]) -> None:
    one = made(windows)
    assert one.effect(TAIL, START_S) is None and one.effect("none", START_S) is None
    assert one.replayed("none", 15.0) is None


def test_its_own_past_replayed_shows_no_alarm_and_a_fault_in_it_does(windows: list[Window]) -> None:
    calm = made(windows[:TICKS]).replayed(PLACE, 15.0)
    assert calm is not None and calm.highest < 15.0 and not calm.alarms and calm.bound is not None
    assert calm.span_s == pytest.approx(5.0 * TICKS * 2 / 3, abs=10.0)
    slow = served(8, {"a": 1.6, "b": 3.0 * 1.6}, 600)
    faulty = [*windows[:600], *(next(slow) for _ in range(60)), *windows[660:TICKS]]
    found = made(faulty).replayed(PLACE, calm.highest + 5.0)
    assert found is not None and found.alarms and found.bound is None


def test_the_strongest_pays_for_the_chances_of_all() -> None:
    first, second = Shown(PLACE, 20.0, 18.0, 1.0, 0.3), Shown(APART, 5.0, 4.0, 2.0, 0.3)
    found = strongest([first, second])
    assert found is not None and found.line == PLACE
    assert found.log_evidence == pytest.approx(20.0 - math.log(2.0), abs=1e-5)
    assert strongest([None, second]) == second._replace(log_evidence=5.0 - math.log(2.0))
    assert strongest([None, None]) is None
