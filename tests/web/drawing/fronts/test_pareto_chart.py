"""Less is at the left and below; the front is joined by a staircase that beats what lies above it."""

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.fronts.pareto_chart import Placed, Side, pareto_chart
from web.frame.format import seconds

ACROSS, UP = Side("TTFT p95", seconds), Side("time per good request", seconds)
times = st.none() | st.floats(1e-4, 500)
placed = st.builds(
    Placed, st.integers(0, 99), st.sampled_from(["default", "search"]), st.tuples(times, times), st.booleans()
)


@given(st.lists(placed, min_size=1, max_size=30))
def test_all_of_it_lies_in_the_drawing_and_less_is_left_and_below(points: list[Placed]) -> None:
    chart = pareto_chart(points, ACROSS, UP)
    known = [one for one in points if one.at[0] and one.at[1]]
    if not known:
        assert chart is None
        return
    assert chart is not None and len(chart.marks) == len(known) and len(chart.rows["rows"]) == len(points)
    assert all(0 < mark.x < 1 and 0 < mark.y < 1 for mark in chart.marks)
    assert all(0 <= tick.share <= 1 for tick in (*chart.across, *chart.up))


MEMBERS = {1: (0.18, 0.12), 2: (0.25, 0.07), 3: (0.4, 0.05)}
POINTS = [
    Placed(0, "default", (0.32, 0.11), True),
    *(Placed(number, "search", at, True, True, ((at[0] / 2, at[0] * 2), at)) for number, at in MEMBERS.items()),
    Placed(4, "search", (0.5, 0.2), True),
    Placed(5, "search", (0.15, 0.06), False),
    Placed(6, "search", (None, 0.1), False),
]


def test_less_is_left_and_below_and_the_staircase_goes_from_member_to_member() -> None:
    chart = pareto_chart(POINTS, ACROSS, UP)
    assert chart is not None
    assert [mark.what for mark in chart.marks] == ["broke", "kept", "default", *["front"] * 3]
    first, second, third = (mark for mark in chart.marks if mark.what == "front")
    assert first.x < second.x < third.x and first.y < second.y < third.y, "down is less"
    stairs = [(stroke.x, stroke.y, stroke.to_x, stroke.to_y) for stroke in chart.front]
    assert stairs == [
        (first.x, first.y, second.x, first.y),
        (second.x, first.y, second.x, second.y),
        (second.x, second.y, third.x, second.y),
        (third.x, second.y, third.x, third.y),
    ]
    assert len(chart.ends) == 6 and all(0 <= stroke.x <= stroke.to_x <= 1 for stroke in chart.ends)
    apart = pareto_chart(POINTS, ACROSS, UP, joined=False)
    assert apart is not None and apart.front == []


def test_it_says_from_where_to_where_the_front_goes_and_whether_the_default_is_on_it() -> None:
    chart = pareto_chart(POINTS, ACROSS, UP)
    assert chart is not None
    assert chart.sentence == (
        "3 of 7 configurations are on the front, from TTFT p95 180 ms with time per good request 120 ms (trial 1) to "
        "TTFT p95 400 ms with time per good request 50 ms (trial 3). The default is not."
    )
    assert chart.rows["rows"][0] == ["0 (default)", "320 ms", "110 ms", "kept", "no"]
    assert chart.rows["rows"][6] == ["6", "–", "100 ms", "not measured", "no"]
    alone = pareto_chart([Placed(0, "default", (0.3, 0.1), True, True)], ACROSS, UP)
    assert alone is not None and alone.sentence.endswith("(trial 0). The default is one of them.")
    none = pareto_chart([Placed(1, "search", (0.3, 0.1), False)], ACROSS, UP)
    assert none is not None and none.sentence == "None of 1 configurations likely keeps the limits."
