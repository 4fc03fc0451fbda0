"""What a page shows stands in its address, whole: the address and the selection undo each other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from web.frame.selection import COMPARED, FILTERS, LONGEST_WORD, Comparison, Selection, is_number, selection_of
from web.frame.time_range import TimeRange

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBERS = st.integers(0, 10**18 - 1).map(str)
RANGES = st.sampled_from(
    [
        *(TimeRange(), TimeRange("now-7d"), TimeRange("now-2h", "now-1h"), TimeRange("now-15m", "now-1s")),
        TimeRange("2026-03-01T10:00:00Z", "2026-03-01T11:00:00+00:00"),
    ]
)
SAID = {"from", "to", "compare", "timezone", "refresh"}
OWN = st.dictionaries(WORDS.filter(lambda name: name not in {*FILTERS, *SAID}), WORDS, max_size=3)
SELECTIONS = st.builds(
    Selection,
    now=st.just(NOW),
    range=RANGES,
    filters=st.fixed_dictionaries({}, optional={name: NUMBERS if name == "revision" else WORDS for name in FILTERS}),
    compare=st.none()
    | st.builds(Comparison, st.just("earlier"), st.sampled_from(["1h", "90s", "2w"]))
    | st.builds(Comparison, st.just("revision"), NUMBERS)
    | st.builds(Comparison, st.just("node"), WORDS),
    timezone=st.sampled_from(["utc", "Europe/Berlin", "Asia/Kolkata"]),
    paused=st.booleans(),
    own=OWN,
    range_said=st.booleans(),
).map(lambda one: replace(one, range_said=one.range_said or one.range != TimeRange()))


def of(query: str, now: datetime = NOW) -> Selection:
    return selection_of(dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True)), now)


@given(SELECTIONS)
def test_address_and_selection_undo_each_other(selection: Selection) -> None:
    assert of(selection.query()) == selection
    assert of(selection.frame_query()) == of(selection.query(**dict.fromkeys(selection.own)))


@given(SELECTIONS, WORDS)
def test_a_link_changes_what_it_names_and_nothing_else(selection: Selection, pool: str) -> None:
    assert of(selection.query(pool=pool)) == selection.with_pool(pool)
    without = {name: value for name, value in selection.filters.items() if name != "pool"}
    assert dict(of(selection.query(pool=None)).filters) == without


def test_an_address_that_says_nothing_is_the_usual() -> None:
    assert of("") == Selection(now=NOW) and Selection(now=NOW).query() == ""
    assert of("?from=now-15m&to=now&pool=&timezone=UTC&refresh=on&compare=&kind=") == Selection(
        now=NOW, range_said=True
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("from=never", "from"), ("to=now-1h", "to"), ("from=now-1h&to=x", "to")),
        *(("revision=three", "revision"), ("revision=-1", "revision"), ("revision=" + 19 * "9", "revision")),
        *(("revision=%D9%A3", "revision"), ("revision=1.5", "revision")),
        *(("compare=yesterday", "compare"), ("compare=earlier:", "compare"), ("compare=earlier:1y", "compare")),
        *(("compare=revision:x", "revision"), ("compare=pool:a", "compare"), ("compare=earlier:0s", "compare")),
        *(("compare=earlier:999999w", "compare"), ("compare=:1", "compare")),
        *(("timezone=Mars/Base", "timezone"), ("timezone=../../etc/passwd", "timezone"), ("timezone=%00", "timezone")),
        *(("timezone=Europe", "timezone"), ("timezone=/etc/localtime", "timezone")),
        *(("refresh=no", "refresh"), ("refresh=OFF", "refresh")),
        *(("pool=" + "a" * (LONGEST_WORD + 1), "pool"), ("anything=" + "a" * (LONGEST_WORD + 1), "anything")),
    ],
)
def test_each_bad_word_is_refused_with_its_field(query: str, field: str) -> None:
    with pytest.raises(BadRequest, match=f"^{field}: wants") as refused:
        of(query)
    assert refused.value.detail["field"] == field


@given(st.dictionaries(st.sampled_from([*FILTERS, *SAID, "metric"]), st.text(max_size=30)))
def test_any_address_is_a_selection_that_can_be_asked_for_or_is_refused(params: dict[str, Any]) -> None:
    try:
        found = selection_of(params, NOW)
    except BadRequest as refused:
        assert refused.detail["field"] in params
        return
    assert found.zone.utcoffset(NOW) is not None and found.step_s > 0 and found.span
    assert found.compare is None or found.compare.kind in COMPARED


def test_a_list_is_cut_to_a_time_that_the_address_says() -> None:
    before, long_before = NOW - timedelta(minutes=30), NOW - timedelta(hours=3)
    assert of("").covers(long_before, before)
    hour = of("?from=now-1h")
    assert hour.covers(long_before, before) and hour.covers(long_before, None) and hour.covers(before, before)
    assert not hour.covers(long_before, NOW - timedelta(hours=2))
    assert not of("?from=now-2h&to=now-1h").covers(before, None)


def test_a_range_that_goes_on_is_asked_for_by_its_length_and_one_that_ended_by_its_ends() -> None:
    live = of("?from=now-1h&pool=chat&revision=3")
    serving = {"role": "serving", "pool": "chat", "revision": "3"}
    assert (live.span, live.step, live.labels) == ({"window": "3600s"}, "30s", serving)
    ended = of("?from=now-2h&to=now-1h")
    assert [moment.hour for moment in ended.span.values()] == [10, 11]
    assert of("?node=gpu-t").labels == {"node": "gpu-t"}  # It may be a trial node.


@pytest.mark.parametrize("text", ["", "1 ", "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT THREE}", 19 * "1", "1\n"])
def test_what_is_no_number_of_a_row(text: str) -> None:
    assert not is_number(text) and is_number("0") and is_number(18 * "9")
