"""The e-detector: fair under the null, quick on a real shift, exact through its serialised form."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.evidence.e_detector import RATIOS, Exceedances, Stream, log_ratio, observe

LOG_A = math.log1p(120_960)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("phi", [1.0, 2.5])
def test_expectation_at_most_one_under_the_null(ratio: float, phi: float) -> None:
    """By the exact binomial distribution, at the null share and below it."""
    n, null = 40, 0.06
    for share in (null, 0.5 * null):
        mean = sum(
            math.comb(n, k)
            * share**k
            * (1 - share) ** (n - k)
            * math.exp(log_ratio([Exceedances(n, k, null)], ratio, phi))
            for k in range(n + 1)
        )
        assert mean <= 1.0 + 1e-9


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 500), st.floats(0.001, 0.9), st.sampled_from(RATIOS), st.floats(1, 50))
def test_evidence_is_finite_and_rises_with_exceedances(n: int, null: float, ratio: float, phi: float) -> None:
    steps = [log_ratio([Exceedances(n, k, null)], ratio, phi) for k in range(0, n + 1, max(1, n // 7))]
    assert all(math.isfinite(step) for step in steps)
    assert steps == sorted(steps)


def test_no_alarm_in_simulated_null_weeks() -> None:
    """Two weeks of ticks at exactly the null share: about two alarms are what the threshold allows; far fewer come."""
    random = np.random.default_rng(3)
    alarms, stream = 0, Stream()
    for k in random.binomial(50, 0.05, size=40_000):
        observe(stream, 0.0, [Exceedances(50, int(k), 0.05)], 1.0, LOG_A)
        if stream.alarmed:
            alarms, stream = alarms + 1, Stream()
    assert alarms <= 1


@pytest.mark.slow
def test_mean_time_to_false_alarm_is_at_least_the_threshold() -> None:
    """With a low threshold the promise can be measured: A = 200 ticks or more on average."""
    random = np.random.default_rng(5)
    waits, stream, waited = [], Stream(), 0
    for k in random.binomial(50, 0.05, size=60_000):
        waited += 1
        observe(stream, 0.0, [Exceedances(50, int(k), 0.05)], 1.0, math.log1p(200))
        if stream.alarmed:
            waits.append(waited)
            stream, waited = Stream(), 0
    assert len(waits) <= 60_000 / 200


@pytest.mark.parametrize("rate", [5, 20, 100])
def test_three_times_slower_alarms_within_a_minute(rate: int) -> None:
    """x3 on a lognormal with sigma 0.6 lifts the share above the old p95 from 5 % to 57 %."""
    random = np.random.default_rng(rate)
    stream = Stream()
    for _ in range(200):
        observe(stream, 0.0, [Exceedances(5 * rate, int(random.binomial(5 * rate, 0.05)), 0.0525)], 2.0, LOG_A)
    assert not stream.alarmed
    for tick in range(12):
        above = int(random.binomial(5 * rate, 0.57))
        observe(stream, 1000.0 + 5 * tick, [Exceedances(5 * rate, above, 0.0525)], 2.0, LOG_A)
        if stream.alarmed:
            break
    assert stream.alarmed and stream.onset_s is not None and abs(stream.onset_s - 1000.0) <= 10


def test_an_alarm_ends_when_the_share_is_back() -> None:
    stream = Stream()
    for tick in range(5):
        observe(stream, 5.0 * tick, [Exceedances(50, 25, 0.05)], 1.0, LOG_A)
    assert stream.alarmed
    for tick in range(5, 30):
        observe(stream, 5.0 * tick, [Exceedances(50, 25, 0.05)], 1.0, LOG_A)
    assert stream.alarmed
    for tick in range(30, 40):
        observe(stream, 5.0 * tick, [Exceedances(50, 2, 0.05)], 1.0, LOG_A)
    assert not stream.alarmed and stream.log_evidence < LOG_A / 2


def test_strata_make_the_mix_irrelevant() -> None:
    """A tick of long prompts only, slow as they always were, is no evidence."""
    stream = Stream()
    for _ in range(500):
        observe(stream, 0.0, [Exceedances(5, 0, 0.05), Exceedances(95, 4, 0.05)], 1.0, LOG_A)
    assert not stream.alarmed and stream.log_evidence < 1.0


def test_serialised_evidence_continues_exactly() -> None:
    random = np.random.default_rng(9)
    one, other = Stream(), Stream()
    for tick, k in enumerate(random.binomial(30, 0.12, size=300)):
        for stream in (one, other):
            observe(stream, 5.0 * tick, [Exceedances(30, int(k), 0.05)], 4.0, LOG_A)
        other = Stream.load(json.loads(json.dumps(other.dump())))
    assert one == other


def test_the_expectation_is_one_at_the_null_itself() -> None:
    """Less would be safe, and slow: evidence is thrown away."""
    n, null = 40, 0.06
    for ratio in RATIOS:
        chance = [math.comb(n, k) * null**k * (1 - null) ** (n - k) for k in range(n + 1)]
        gained = [math.exp(log_ratio([Exceedances(n, k, null)], ratio, 1.0)) for k in range(n + 1)]
        assert sum(p * e for p, e in zip(chance, gained, strict=True)) == pytest.approx(1.0)


@pytest.mark.parametrize("times", [1.25, 1.5, 2.0, 3.0, 5.0])
def test_a_shift_by_a_quarter_to_five_times_is_shown_as_fast_as_if_it_were_known(times: float) -> None:
    """No alternative gains more, on average, than the divergence of the shifted share from the null."""
    n, null = 10_000, 0.05
    share = times * null
    gained = max(log_ratio([Exceedances(n, round(n * share), null)], ratio, 1.0) for ratio in RATIOS)
    divergence = share * math.log(times) + (1.0 - share) * math.log((1.0 - share) / (1.0 - null))
    assert gained == pytest.approx(n * divergence, rel=1e-6)


def test_one_tick_shows_no_more_than_e_to_the_fifth_beyond_the_threshold() -> None:
    stream = Stream()
    observe(stream, 0.0, [Exceedances(10_000, 9_000, 0.05)], 1.0, LOG_A)
    assert stream.alarmed and LOG_A < stream.log_evidence <= LOG_A + 5.0 + 1e-6


def test_evidence_is_shiryaev_and_roberts_sum() -> None:
    """By the recursion of the paper, in plain numbers: M <- (M + 1) L for each alternative, then their mean."""
    stream, sums = Stream(), [0.0] * len(RATIOS)
    assert stream.log_evidence == 0.0 and stream.suspected_since_s is None
    for tick, above in enumerate((1, 4, 0, 6, 2)):
        cells = [Exceedances(30, above, 0.05)]
        observe(stream, 5.0 * tick, cells, 2.0, LOG_A)
        sums = [(m + 1) * math.exp(log_ratio(cells, ratio, 2.0)) for m, ratio in zip(sums, RATIOS, strict=True)]
        assert stream.log_evidence == pytest.approx(math.log(sum(m + 1 for m in sums) / len(RATIOS)))


def test_what_no_alarm_has_been_raised_for_yet_has_a_date_too() -> None:
    stream = Stream()
    observe(stream, 1000.0, [Exceedances(50, 6, 0.05)], 1.0, LOG_A)
    observe(stream, 1005.0, [Exceedances(50, 4, 0.05)], 1.0, LOG_A)
    assert stream.suspected_since_s == 1000.0, "a shift from the first tick on begins with it"
    for tick in range(20):
        observe(stream, 1010.0 + 5 * tick, [Exceedances(50, 1, 0.05)], 1.0, LOG_A)
    assert stream.suspected_since_s is None


def test_a_change_is_suspected_from_its_onset_where_so_much_speaks_for_it() -> None:
    stream = Stream()
    assert stream.suspected_from(0.0) is None
    observe(stream, 1000.0, [Exceedances(50, 6, 0.05)], 1.0, LOG_A)
    gain = max(stream.gain)
    assert gain > 0.5
    assert (stream.suspected_from(gain), stream.suspected_from(gain + 1e-9)) == (1000.0, None)
    stream.alarmed, stream.onset_s = True, 990.0
    assert stream.suspected_from(gain + 1e-9) == 990.0, "in alarm, whatever speaks for it"


def test_the_least_evidence_of_a_shift_has_a_date() -> None:
    stream = Stream()
    observe(stream, 7.0, [Exceedances(50, 4, 0.05)], 2.0, LOG_A)
    assert stream.suspected_since_s == 7.0


def alarmed(share: float, count: int = 2000) -> Stream:
    stream = Stream()
    tick = 0
    while not stream.alarmed:
        observe(stream, 5.0 * tick, [Exceedances(count, round(share * count), 0.05)], 1.0, LOG_A)
        tick += 1
    return stream


def test_since_an_alarm_it_is_counted_what_lies_above_and_what_the_null_allows() -> None:
    stream = alarmed(0.25, 100)
    assert (stream.slow_above, stream.slow_expected) == (25, pytest.approx(5.0))
    observe(stream, 500.0, [Exceedances(100, 30, 0.05)], 1.0, LOG_A)
    assert (stream.slow_above, stream.slow_expected, stream.recovery) == (55, pytest.approx(10.0), 0.0)
    observe(stream, 505.0, [Exceedances(20, 1, 0.05)], 1.0, LOG_A)
    assert (stream.slow_above, stream.slow_expected) == (55, pytest.approx(10.0)), "it may be over: no more is shown"
    assert stream.recovery > 0.0


@pytest.mark.parametrize(
    ("above", "expected", "against"),
    [(11, 10.0, 1.25), (15, 10.0, 1.5), (1, 0.5, 2.0), (29, 10.0, 2.0), (70, 10.0, 5.0), (0, 0.0, 5.0)],
)
def test_recovery_is_judged_against_the_largest_alternative_that_was_shown(
    above: int, expected: float, against: float
) -> None:
    stream = Stream(alarmed=True, onset_s=0.0, slow_above=above, slow_expected=expected)
    cells = [Exceedances(100, 2, 0.05)]
    observe(stream, 5.0, cells, 8.0, LOG_A)
    assert stream.recovery == pytest.approx(-log_ratio(cells, against, 8.0)) and stream.recovery > 0.0


@pytest.mark.parametrize("share", [0.07, 0.075, 0.1, 0.2, 0.4])
def test_an_alarm_lasts_as_long_as_its_shift_however_mild(share: float) -> None:
    """Judged against a larger shift than it showed, a mild one would count as recovered while it is still there."""
    stream = alarmed(share)
    for tick in range(200):
        observe(stream, 1e4 + 5 * tick, [Exceedances(2000, round(2000 * share), 0.05)], 1.0, LOG_A)
        assert stream.alarmed
    for tick in range(20):
        observe(stream, 2e4 + 5 * tick, [Exceedances(2000, 90, 0.05)], 1.0, LOG_A)
    assert not stream.alarmed
    assert stream.onset_s is None and stream.recovery == 0.0


def test_a_stream_is_blank_until_it_is_told_anything_and_once_it_has_recovered() -> None:
    stream = Stream()
    assert stream.is_blank
    observe(stream, 0.0, [Exceedances(50, 0, 0.05)], 1.0, LOG_A)
    assert not stream.is_blank and not any(stream.gain)
    for above in (*[40] * 10, *[0] * 60):
        observe(stream, 5.0, [Exceedances(50, above, 0.05)], 1.0, LOG_A)
        if stream.is_blank:
            break
    assert stream == Stream()


def test_a_line_shows_what_its_scan_has_found_and_nothing_of_exceedances() -> None:
    stream = Stream(line="place", shown=3.5, gain=[1.0, 2.0] + [0.0] * (len(RATIOS) - 2), log_next=[9.0] * len(RATIOS))
    assert (stream.log_evidence, stream.log_gain) == (3.5, 2.0)
    alone = Stream(shown=3.5, log_next=[9.0] * len(RATIOS))
    assert alone.log_evidence == pytest.approx(9.0) == alone.log_gain
