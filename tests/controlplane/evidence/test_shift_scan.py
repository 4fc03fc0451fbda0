"""The scan is silent about wandering, finds a rise soon, and does not take one freak tick for one."""

import numpy as np
import pytest

from controlplane.contract.histogram import AXIS_LENGTH, BASE
from controlplane.evidence.scores import tail
from controlplane.evidence.shift_scan import ENOUGH, Scan, Sums, hint_each, total
from controlplane.evidence.wander import TAUS_TICKS, Wander, fit
from tests.controlplane.evidence.test_wander import process

PAST, RISES, TOLERATED, ALARM = 4000, (0.3, 0.6, 1.2), 0.05, 15.0
EQUAL = (1 / 3, 1 / 3, 1 / 3)
SAMPLING = 0.01


def evidence(values: np.ndarray, wander: Wander | None = None) -> np.ndarray:
    sampling = np.full(values.size, SAMPLING)
    wander = wander or fit(values[:PAST], sampling[:PAST], [0.0] * len(TAUS_TICKS))
    level = float(np.nanmean(values[:PAST]))
    ends = np.arange(PAST + 1, values.size + 1)
    return total(Scan.of(wander, PAST).parts(Sums.of(values, sampling, wander, level), ends, RISES, EQUAL, TOLERATED))


def noise(seed: int, ticks: int = PAST + 2000) -> np.ndarray:
    return process(0.1, 12.0, ticks, seed) + 0.1 * np.random.default_rng(100 + seed).normal(size=ticks)


@pytest.mark.parametrize("seed", range(4))
def test_wandering_is_no_rise(seed: int) -> None:
    assert evidence(noise(seed)).max() < ALARM


@pytest.mark.parametrize("seed", range(4))
def test_a_rise_is_found_soon_whatever_the_level(seed: int) -> None:
    values = noise(seed) + 7.0
    values[PAST + 500 :] += 0.6
    found = evidence(values)
    assert found[:500].max() < ALARM
    assert np.argmax(found[500:] >= ALARM) < 30 and found[500:].max() >= ALARM


def test_one_freak_tick_is_no_rise_and_an_empty_one_is_nothing() -> None:
    values = noise(5)
    values[PAST + 300] += 50.0
    values[PAST + 600 : PAST + 700] = np.nan
    assert evidence(values).max() < ALARM


def test_what_is_reached_counts_beyond_what_a_freak_tick_may() -> None:
    """Without it values that stay far above say no more than ones at the limit."""
    known, sampling = Wander((0.001, 0.0, 0.0, 0.0, 0.005, 0.0, 0.0)), np.full(500, 0.001)
    values = np.where(np.arange(500) >= 480, 2.0, 0.0)
    held, whole = Sums.of(values, sampling, known, 0.0), Sums.of(values, sampling, known, 0.0, values)
    scan, at = Scan.of(known, 500), np.array([500])
    found = [float(total(scan.parts(sums, at, RISES, EQUAL, TOLERATED))[0]) for sums in (held, whole)]
    assert found[0] < found[1] / 3
    assert np.array_equal(held.now[3], whole.now[3]) and held.now[1, 480] == whole.now[1, 480] == 0.0


def test_evidence_is_a_mean_of_likelihood_ratios() -> None:
    """Under the null, with the noise known, the mean ratio of one onset and alternative is 1."""
    random, known = np.random.default_rng(9), Wander((0.0,) * len(TAUS_TICKS))
    scan = Scan.of(known, 200)
    ratios = []
    for _ in range(400):
        values = 0.1 * random.normal(size=220)
        sums = Sums.of(values, np.full(220, SAMPLING), known, 0.0)
        ratios.append(scan.parts(sums, np.array([220]), (0.1,), (1.0,), 0.0)[0, :, 0])
    gaps = np.diff(scan.edges[np.concatenate([[scan.onsets[0] - 1], scan.onsets])])
    means = np.exp(np.array(ratios)).mean(axis=0) / gaps
    assert means[:4] == pytest.approx(1.0, abs=0.4)  # Short spans: of long ones the mean is made by rare large ratios.


def known_noise() -> Wander:
    return Wander((0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.0))


def test_pushed_one_by_one_the_sums_are_the_same() -> None:
    values, sampling = noise(6, 3000), np.full(3000, SAMPLING)
    values[40:60] = np.nan
    values[100] = 30.0
    whole = Sums.of(values, sampling, known_noise(), 0.1)
    grown = Sums(known_noise(), 0.1, capacity=4)
    for value, variance in zip(values, sampling, strict=True):
        grown.push(float(value), float(variance))
    assert grown.ticks == whole.ticks == 3000
    assert grown.now == pytest.approx(whole.now, rel=1e-9, abs=1e-9)
    halves = Sums.of(values[:1700], sampling[:1700], known_noise(), 0.1).extended(values[1700:], sampling[1700:])
    assert halves.ticks == 3000 and halves.now == pytest.approx(whole.now, rel=1e-9, abs=1e-9)


def test_weights_are_what_an_alternative_is_believed_beforehand() -> None:
    values, sampling = noise(7), np.full(PAST + 2000, SAMPLING)
    scan, sums = Scan.of(known_noise(), PAST), Sums.of(values, sampling, known_noise(), 0.0)
    equal = scan.parts(sums, np.array([PAST]), RISES, EQUAL, TOLERATED)
    biased = scan.parts(sums, np.array([PAST]), RISES, (0.5, 0.3, 0.2), TOLERATED)
    assert biased - equal == pytest.approx(np.broadcast_to(np.log([1.5, 0.9, 0.6]), equal.shape))


def test_hints_of_many_ticks_are_those_of_each() -> None:
    values, sampling = noise(8, PAST + 300), np.full(PAST + 300, SAMPLING)
    values[PAST + 100 :] += 0.3
    scan, sums = Scan.of(known_noise(), PAST), Sums.of(values[:PAST], sampling[:PAST], known_noise(), 0.0)
    whole = Sums.of(values, sampling, known_noise(), 0.0)
    many = scan.hints(whole, np.arange(PAST + 1, values.size + 1))
    each = []
    for value in values[PAST:]:
        sums.push(float(value), SAMPLING)
        each.append(scan.hint(sums))
    assert list(many) == each and many.any() and not many.all()


def test_hints_of_many_series_are_those_of_each() -> None:
    series = []
    for seed, rise in enumerate((0.0, 0.3, 0.0, 1.2)):
        values = noise(seed, PAST + 10 * seed)
        values[-40:] += rise
        wander = fit(values[:PAST], np.full(PAST, SAMPLING), [0.0] * len(TAUS_TICKS))
        series.append((Scan.of(wander, PAST), Sums.of(values, np.full(values.size, SAMPLING), wander, 0.0)))
    each = [scan.hint(sums) for scan, sums in series]
    assert hint_each(series) == each and set(each) == {True, False}
    assert hint_each([]) == []


def test_a_rise_of_many_deviations_is_not_back_while_it_lasts_and_is_told_whole() -> None:
    """A tick counts at most so much as evidence; what it is estimated from is all of it."""
    wander, random = known_noise(), np.random.default_rng(4)
    scan = Scan.of(wander, PAST)
    sums = Sums.of(0.1 * random.normal(size=PAST), np.full(PAST, SAMPLING), wander, 0.0)
    for _ in range(100):
        sums.push(8.0 + 0.1 * random.normal(), SAMPLING)
    assert scan.back(sums, 100, 6.0) == 0.0
    estimate, width = scan.rise(sums, 100)
    assert estimate == pytest.approx(8.0, abs=width) and width < 1.0


@pytest.mark.parametrize("rise", [0.15, 0.3, 0.6, 1.2])
@pytest.mark.parametrize("seed", range(3))
def test_no_alarm_comes_without_a_hint(seed: int, rise: float) -> None:
    """Where the hint says that a look is not worth its price, the look would not have found an alarm."""
    values = noise(seed, PAST + 600)
    values[PAST + 100 :] += rise
    sampling = np.full(values.size, SAMPLING)
    wander = fit(values[:PAST], sampling[:PAST], [0.0] * len(TAUS_TICKS))
    scan, sums = Scan.of(wander, PAST), Sums.of(values[:PAST], sampling[:PAST], wander, float(values[:PAST].mean()))
    looked = 0
    for tick in range(PAST, values.size):
        sums.push(float(values[tick]), SAMPLING)
        found = total(scan.parts(sums, np.array([sums.ticks]), RISES, EQUAL, TOLERATED))[0]
        hinted = scan.hint(sums)
        looked += hinted
        assert hinted or found < ALARM - 3.0
    assert looked < 600, "it spares something"


def test_a_level_is_back_when_its_newest_ticks_are_at_the_usual_one() -> None:
    wander = known_noise()
    scan, random = Scan.of(wander, PAST), np.random.default_rng(3)
    sums = Sums.of(0.1 * random.normal(size=PAST), np.full(PAST, SAMPLING), wander, 0.0)
    for _ in range(200):
        sums.push(0.6 + 0.1 * random.normal(), SAMPLING)
    assert scan.back(sums, 200, 0.6) == 0.0
    for _ in range(60):
        sums.push(0.1 * random.normal(), SAMPLING)
    assert scan.back(sums, 260, 0.6) > 5.0
    assert scan.back(sums, 5, 0.6) == 0.0, "that is too soon to tell"
    assert scan.back(sums, 260, 0.0) == 0.0


def test_few_requests_with_skewed_scores_say_little_more_than_chance_allows() -> None:
    """A mean that lies five standard deviations out, against Chernoff's bound for the very scores: as a normal one
    it says 3 nats too much of 400 requests and 6 of 50."""
    random, still = np.random.default_rng(3), Wander((0.0,) * len(TAUS_TICKS))
    places = 500 + 0.35 / np.log(BASE) * random.normal(size=200_000)
    scores = tail(np.bincount(places.astype(int), minlength=AXIS_LENGTH))
    assert scores.skewness > 3.0
    scan = Scan.of(still, 400)
    tilts = np.linspace(0.0, 1.5, 3001)
    means = np.log(
        np.exp(tilts[:, None] * scores.table[None, scores.shares > 0.0]) @ scores.shares[scores.shares > 0.0]
    )
    for requests in (50, 100, 200, 400):
        rise = 5.0 / np.sqrt(requests)
        bound = float((tilts * rise - means).max()) * requests
        values = np.concatenate([np.zeros(398), [rise, rise]])
        sums = Sums.of(values, np.full(400, 2.0 / requests), still, 0.0)
        taken = {
            skewness: scan.parts(sums, np.array([400]), (rise,), (1.0,), 0.0, skewness)[0, 0, 0] - scan.log_gaps[0]
            for skewness in (0.0, scores.skewness)
        }
        assert taken[0.0] > bound + 3.1
        assert bound < taken[scores.skewness] < bound + 2.1


def test_many_requests_say_as_much_whatever_their_skewness() -> None:
    still = Wander((0.0,) * len(TAUS_TICKS))
    scan, sums = Scan.of(still, 400), Sums.of(np.linspace(0.0, 0.4, 400), np.full(400, 2.0 / ENOUGH), still, 0.0)
    usual, skew = (scan.parts(sums, np.array([400]), RISES, EQUAL, TOLERATED, skewness) for skewness in (0.0, 4.0))
    assert skew == pytest.approx(usual)
