"""Marks' words: none lies on another or beyond the plot, and what explains the most keeps its own."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.mark_labels import FIRST, GAP_PX, LANES, LETTER_PX, NARROW_PX, WIDE_PX, Label, labels_of

MARKS = st.lists(
    st.tuples(
        st.floats(0, 1, allow_nan=False),
        st.sampled_from([*FIRST, "of another kind"]),
        st.text("abc ", min_size=1, max_size=40),
    ),
    max_size=30,
)


def reach(mark: tuple[float, str, str], label: Label, width_px: float) -> tuple[float, float]:
    """From where to where the words lie, px."""
    at_px, length_px = mark[0] * width_px, LETTER_PX * len(mark[2])
    return (at_px - length_px, at_px) if label.before else (at_px, at_px + length_px)


@given(MARKS, st.sampled_from([NARROW_PX, 500.0, WIDE_PX]))
def test_no_words_lie_on_others_or_beyond_the_plot(marks: list[tuple[float, str, str]], wide_px: float) -> None:
    found = labels_of(marks, wide_px)
    for width_px, shown in (
        (NARROW_PX, [(mark, label) for mark, label in zip(marks, found, strict=True) if label and not label.wide]),
        (wide_px, [(mark, label) for mark, label in zip(marks, found, strict=True) if label]),
    ):
        for mark, label in shown:
            begin_px, end_px = reach(mark, label, width_px)
            assert 0 <= label.lane < LANES and begin_px >= 0 and end_px <= width_px + GAP_PX
        for (one, here), (other, there) in combinations(shown, 2):
            if here.lane == there.lane:
                left, right = sorted((reach(one, here, width_px), reach(other, there, width_px)))
                assert left[1] <= right[0] + 1e-6


def test_a_wide_plot_has_what_a_narrow_one_has_and_more() -> None:
    marks = [(place / 10, "node", "node gpu-1 enrolled") for place in range(10)]
    narrow, wide = labels_of(marks), labels_of(marks, WIDE_PX)
    assert [label is not None for label in narrow] == [label is not None and not label.wide for label in wide]
    assert sum(label is not None for label in wide) > sum(label is not None for label in narrow)


def test_an_alert_and_a_rollout_keep_their_words_where_nodes_crowd() -> None:
    crowd = [(0.5, "node", f"node gpu-{number} enrolled") for number in range(20)]
    found = labels_of([*crowd, (0.501, "alert", "alert 2 fired"), (0.502, "rollout", "rollout 3 promoted")])
    assert all(found[-2:]) and not all(found)


def test_of_a_kind_the_newer_keeps_its_words() -> None:
    marks = [(0.5 + place / 1000, "rollout", "rollout 1") for place in range(20)]
    found = [place for place, label in enumerate(labels_of(marks)) if label]
    assert found == list(range(20 - len(found), 20)) and 0 < len(found) < 20


def test_at_the_right_edge_the_words_end_at_the_mark() -> None:
    assert labels_of([(0.98, "alert", "alert 2 fired"), (0.1, "alert", "alert 1 fired")]) == [
        Label(0, before=True),
        Label(0),
    ]


def test_words_that_are_longer_than_the_plot_are_left_out() -> None:
    assert labels_of([(0.0, "event", "x" * 200)]) == [None]
    assert labels_of([(0.0, "event", "x" * 100)], WIDE_PX) == [Label(0, wide=True)]
