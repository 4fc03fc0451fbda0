"""What was usual before an incident: a range that outliers do not stretch, over the alert's own baseline."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.incidents.test_incident_span import ONSET, alert_of
from web.incidents.usual_range import FEWEST, MOST, Usual, asked_span, told, usual_of, watched_q

BEFORE = (ONSET - timedelta(minutes=30), ONSET)


@given(st.lists(st.floats(0, 1e3), min_size=FEWEST, max_size=60))
def test_eight_in_ten_lie_within(values: list[float]) -> None:
    found = usual_of(0.95, [(float(at), value) for at, value in enumerate(values)])
    assert found is not None and min(values) <= found.low_s <= found.high_s <= max(values)
    assert sum(found.low_s <= value <= found.high_s for value in values) >= 0.8 * len(values) - 1
    assert found.span_s == len(values) - 1


def test_an_incident_before_does_not_make_its_values_usual() -> None:
    values = [0.4] * 95 + [9.0] * 5
    found = usual_of(0.95, list(enumerate(values)))
    assert found is not None and (found.low_s, found.high_s, found.band.name) == (0.4, 0.4, "usual p95")
    assert usual_of(0.95, list(enumerate(values[: FEWEST - 1]))) is None


@pytest.mark.parametrize(
    ("since", "words"),
    [
        ([1.2, 1.5, 9.0], "since the onset it has been 1.50 s, 3.0 times the upper end."),
        ([0.45], "since the onset it has been 450 ms, within that."),
        ([0.1], "since the onset it has been 100 ms, below that."),
        ([], "since the onset nothing was measured."),
    ],
)
def test_the_sentence_says_how_far_beyond_it_is(since: list[float], words: str) -> None:
    assert told(Usual(0.95, 0.4, 0.5, 3600), since) == f"p95 is usually 400 ms to 500 ms; {words}"


def test_the_quantile_is_the_alerts() -> None:
    regression = alert_of(1).model_copy(update={"evidence": {"q": 0.95}})
    assert [watched_q(one) for one in (regression, alert_of(1, q="0.5"), alert_of(1), None)] == [0.95, 0.5, 0.99, 0.99]
    assert watched_q(alert_of(1, q="most")) == 0.99 == watched_q(alert_of(1, q="7"))


def test_it_is_looked_for_over_the_baseline_but_not_in_too_many_steps() -> None:
    began = ONSET - timedelta(hours=6)
    alert = alert_of(1).model_copy(update={"evidence": {"baseline": {"start": began.isoformat()}}})
    assert asked_span(alert, BEFORE, 60) == (began, ONSET)
    assert asked_span(alert, BEFORE, 5) == (ONSET - timedelta(seconds=5 * MOST), ONSET)
    assert asked_span(None, BEFORE, 60) == BEFORE
    odd = alert.model_copy(update={"evidence": {"baseline": {"start": "then"}}})
    assert asked_span(odd, BEFORE, 60) == BEFORE
