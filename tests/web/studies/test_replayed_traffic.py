"""The traffic of a study in figures: by slice, and what was done to it; whatever its worker has told."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.web.studies.measured_study import SUMMARY
from web.studies.replayed_traffic import FIGURES, replayed_traffic


def test_each_slice_is_a_column_and_what_was_done_a_sentence() -> None:
    found = replayed_traffic(SUMMARY)
    assert found is not None
    assert found.head == [
        "Captured of the pool",
        "One node's share",
        "Slice of the search",
        "Fresh slice of the pairs",
    ]
    rows = dict(found.rows)
    assert rows["Requests"] == ["1,210", "402", "40", "40"]
    assert rows["Requests in a second"][2:] == ["2.14", "2.3"]
    assert rows["Prompt tokens, p50 / p95 / p99"][0] == "310 / 1,200 / 1,800"
    assert rows["Prompt tokens in repeated prefixes"][0] == "37 %"
    assert found.notes[1:] == [
        "The slice was replayed 1.25 times as fast as it arrived.",
        "2 of its requests were shortened to what the engine takes.",
        "The fresh slice shares no request with the one that the search replayed.",
    ]
    busier = replayed_traffic({**SUMMARY, "load": 2.0})
    assert busier is not None and busier.notes[1] == "It was wanted at 2 times the rate at which it came."


def test_a_named_workload_is_told_in_place_of_what_was_captured() -> None:
    found = replayed_traffic(SUMMARY, "profile:chat@4")
    assert found is not None
    assert found.head[0] == "Profile chat at 4 requests a second"
    assert found.notes[0].startswith("It is shared as if it came to")


def test_a_worker_that_told_nothing_has_told_nothing() -> None:
    assert replayed_traffic({}) is None
    assert replayed_traffic({"engine": {}, "slice": []}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([*SUMMARY, *SUMMARY["slice"], "apart", "p50"])


@given(st.dictionaries(names, anything | st.dictionaries(names, anything)))
def test_whatever_a_worker_tells_is_rows_of_text(summary: dict[str, Any]) -> None:
    found = replayed_traffic(summary)
    if found is not None:
        assert [name for name, _ in found.rows] == list(FIGURES)
        assert all(len(cells) == len(found.head) and all(cells) for _, cells in found.rows)
