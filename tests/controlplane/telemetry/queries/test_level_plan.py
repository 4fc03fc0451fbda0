"""The plan of a query: every window that is kept somewhere is read once, at the coarsest level that fits."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.queries.level_plan import Part, plan
from controlplane.telemetry.values.levels import BASE_S, FoldState, Level

HOUR_S = 3600
ALL = {
    5: Level(5),
    10: Level(10, 0, 10**9),
    60: Level(60, 0, 10**8),
    300: Level(300, 0, 10**7),
    3600: Level(3600, 0, 10**6),
}


def windows(seconds: int) -> int:
    return seconds // BASE_S


def test_an_hour_that_fits_is_one_window() -> None:
    assert plan(ALL, windows(HOUR_S), windows(2 * HOUR_S)) == [Part(3600, 1, 2)]


def test_edges_are_answered_by_finer_levels() -> None:
    first, last = windows(HOUR_S - 75), windows(2 * HOUR_S + 15)
    assert plan(ALL, first, last) == [
        Part(5, first, first + 1), Part(10, 353, 354), Part(60, 59, 60), Part(3600, 1, 2), Part(10, 720, 721),
        Part(5, last - 1, last),
    ]  # fmt: skip


def test_windows_fit_within_steps() -> None:
    assert plan(ALL, 0, windows(HOUR_S), 10) == [Part(10, 0, 360)]
    assert plan(ALL, 0, windows(HOUR_S), 5) == [Part(5, 0, 720)]
    assert plan(ALL, 0, windows(HOUR_S), 15) == [Part(5, 0, 720)]
    assert plan(ALL, 0, windows(HOUR_S), 600) == [Part(300, 0, 12)]


def test_what_is_not_built_is_read_below() -> None:
    levels = {**ALL, 3600: Level(3600), 300: Level(300), 60: Level(60, 0, 59)}
    assert plan(levels, 0, windows(HOUR_S)) == [Part(60, 0, 59), Part(10, 354, 360)]


def test_an_empty_store_has_the_finest_level_only() -> None:
    assert plan(FoldState.first().levels, 7, 9) == [Part(5, 7, 9)]


def test_what_fits_nowhere_is_answered_by_what_is_left() -> None:
    levels = {**ALL, 5: Level(5, windows(2 * HOUR_S)), 10: Level(10, 720, 10**9)}
    assert plan(levels, windows(HOUR_S), windows(HOUR_S + 125), 5) == [Part(60, 60, 63)]
    assert plan(levels, windows(2 * HOUR_S - 10), windows(2 * HOUR_S + 10), 5) == [Part(5, 1440, 1442)]


@st.composite
def states(draw: st.DrawFn) -> dict[int, Level]:
    """Levels as folding and pruning leave them: built in order, kept from whole hours that the coarser one has."""
    built_s = draw(st.integers(0, 40)) * HOUR_S + draw(st.integers(0, 719)) * BASE_S
    levels = {5: 0, 10: built_s // 10}
    for finer, coarser in ((10, 60), (60, 300), (300, 3600)):
        levels[coarser] = levels[finer] * finer // coarser
    kept_hours = sorted((draw(st.integers(0, levels[3600])) for _ in range(5)), reverse=True)
    return {
        resolution: Level(resolution, hour * HOUR_S // resolution, built)
        for (resolution, built), hour in zip(levels.items(), kept_hours, strict=True)
    }


@settings(max_examples=300)
@given(
    states(),
    st.integers(0, windows(45 * HOUR_S)),
    st.integers(0, windows(5 * HOUR_S)),
    st.sampled_from([None, 5, 15, 60, 600, 7200]),
)
def test_every_window_is_read_once(levels: dict[int, Level], first: int, length: int, step_s: int | None) -> None:
    last = first + length
    parts = plan(levels, first, last, step_s)
    read: Counter[int] = Counter()
    for part in parts:
        level, ratio = levels[part.resolution], part.resolution // BASE_S
        assert level.kept_from <= part.first < part.last
        assert part.resolution == BASE_S or part.last <= level.built_to
        assert first <= part.first * ratio and (part.last - 1) * ratio < last
        read.update(range(part.first * ratio, part.last * ratio))
    assert set(read.values()) <= {1}
    assert parts == sorted(parts, key=lambda part: part.first * part.resolution)
    finest = levels[5].kept_from
    assert all(read[window] == 1 for window in range(max(first, finest), last))
    # Where the finest is gone, the finest that is left answers with all of its windows that begin in the span.
    for window in range(first, min(last, finest)):
        for resolution in (60, 300, 3600):
            at, aligned = window * BASE_S // resolution, window * BASE_S % resolution == 0
            if aligned and levels[resolution].kept_from <= at < levels[resolution].built_to:
                assert read[window] == 1


@given(states(), st.integers(0, 10_000), st.integers(1, 3_000), st.sampled_from([None, 10, 60, 300, 3600]))
def test_windows_lie_within_span_and_steps_where_the_finest_level_is(
    levels: dict[int, Level], first: int, length: int, step_s: int | None
) -> None:
    first += levels[5].kept_from
    for part in plan(levels, first, first + length, step_s):
        assert step_s is None or step_s % part.resolution == 0 or part.resolution == BASE_S
        assert part.last * part.resolution <= (first + length) * BASE_S
