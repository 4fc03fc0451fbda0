"""In parallel coordinates each trial is one line through its values, in the order in which the study keeps them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.knobs import EngineConfig
from web.drawing.parallel_trials import Configuration, parallel_trials
from web.drawing.trial_history import Tried

DEFAULT = EngineConfig().knobs()
ORDER = {"prefill_chunk_size": [32, 128, 0], "quantization": ["none", "int8"]}


def configuration(
    number: int, objective_s: float | None, feasible: bool = True, *, won: bool = False, **knobs: Any
) -> Configuration:
    tried = Tried(number, "search" if number else "default", objective_s, feasible)
    return Configuration(tried, {**DEFAULT, **knobs}, won)


TRIALS = [
    configuration(0, 0.4),
    configuration(1, 0.8, False, prefill_chunk_size=32),
    configuration(2, 0.2, won=True, quantization="int8"),
    configuration(3, None, False, prefill_chunk_size=128),
]


def test_axes_are_the_knobs_that_differ_and_then_the_objective() -> None:
    chart = parallel_trials(TRIALS, "E2E p95", ORDER)
    assert chart is not None
    assert [axis.name for axis in chart.axes] == [["prefill", "chunk size"], ["quantization"], ["E2E p95"]]
    chunks, formats, times = chart.axes
    assert [tick.words for tick in chunks.ticks] == ["32", "128", "0"], "an unlimited chunk is the largest"
    assert [tick.words for tick in formats.ticks] == ["none", "int8"]
    assert all(above.share < below.share for below, above in zip(chunks.ticks, chunks.ticks[1:], strict=False))
    assert "500 ms" in [tick.words for tick in times.ticks]
    assert chart.rows["head"] == ["trial", "prefill_chunk_size", "quantization", "E2E p95", "limits"]
    assert chart.rows["rows"][2] == ["2 (winner)", "0", "int8", "200 ms", "kept"]


def test_lines_are_told_apart_and_the_winner_is_drawn_last() -> None:
    chart = parallel_trials(TRIALS, "E2E p95", ORDER)
    assert chart is not None
    assert [(line.what, line.won) for line in chart.lines] == [
        ("failed", False),
        ("broke", False),
        ("default", False),
        ("kept", True),
    ]
    failed, broke, default, kept = chart.lines
    ends = [line.at[-1][1] for line in (failed, broke, default, kept)]
    assert ends == sorted(ends), "slower is higher, and what was not measured stands at the top"
    assert broke.at[0][1] > default.at[0][1], "a smaller value is lower"
    assert kept.words == ("trial 2 (winner): prefill_chunk_size 0, quantization int8: E2E p95 200 ms, limits kept")
    assert chart.sentence == (
        "4 trials differ in prefill_chunk_size and quantization. The winner is trial 2: quantization int8."
    )


def test_lines_of_one_value_lie_side_by_side() -> None:
    chart = parallel_trials(TRIALS, "E2E p95", ORDER)
    assert chart is not None
    unquantized = [line.at[1][1] for line in chart.lines if not line.won]
    assert len(set(unquantized)) == 3 and max(unquantized) - min(unquantized) < 0.1


def test_without_a_measurement_or_a_difference_there_is_no_drawing() -> None:
    assert parallel_trials([], "E2E p95") is None
    assert parallel_trials([configuration(0, 0.4), configuration(1, 0.3)], "E2E p95") is None
    assert parallel_trials([configuration(0, None), configuration(1, None, max_num_seqs=8)], "E2E p95") is None


values = st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3) | st.lists(st.lists(st.integers(1, 9)))
told = st.builds(
    Configuration,
    st.builds(
        Tried,
        st.integers(0, 99),
        st.sampled_from(["default", "search"]),
        st.none() | st.floats(1e-4, 500),
        st.booleans(),
    ),
    st.dictionaries(st.sampled_from(list(DEFAULT)), values),
    st.booleans(),
)


@given(st.lists(told, max_size=12), st.dictionaries(st.sampled_from(list(DEFAULT)), st.lists(values, max_size=4)))
def test_whatever_a_worker_tells_all_of_it_lies_in_the_drawing(
    trials: list[Configuration], order: dict[str, list[Any]]
) -> None:
    chart = parallel_trials(trials, "E2E p95", order)
    if chart is None:
        return
    assert len(chart.lines) == len(chart.rows["rows"]) == len(trials)
    for line in chart.lines:
        assert [x for x, _ in line.at] == [axis.x for axis in chart.axes]
        assert all(0 <= share <= 1 for place in line.at for share in place)
    assert all(0 <= tick.share <= 1 and tick.words for axis in chart.axes for tick in axis.ticks if tick.words)
