"""Tables: a line a row, aligned, no wider than the terminal, whole in a pipe."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from controlplane.terminal.output.table_lines import LEAST, fitted, one_line, table_lines

rows = st.integers(1, 5).flatmap(
    lambda columns: st.lists(st.lists(st.text(max_size=40), min_size=columns, max_size=columns), min_size=1, max_size=5)
)


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    lines = table_lines(("node", "p99"), [("a", "5 ms"), ("gpu-12", "1.65 s"), ("b", "-")], None)
    assert lines == ["node       p99", "a         5 ms", "gpu-12  1.65 s", "b            -"]


def test_the_widest_column_is_shortened_for_a_terminal() -> None:
    lines = table_lines(("id", "news"), [("1", "x" * 100), ("12", "short")], 30)
    assert lines == ["id  news", " 1  " + "x" * 25 + "…", "12  short"]


def test_prose_at_the_end_gives_before_what_is_told_apart_by_its_end() -> None:
    assert fitted([20, 17, 60], 60) == [20, 17, 23]
    assert fitted([20, 17, 60], 50) == [17, 17, 16]


@given(rows, st.integers(1, 120))
def test_no_line_is_wider_than_the_terminal(table: list[list[str]], width: int) -> None:
    lines = table_lines(table[0], table[1:], width)
    assert len(lines) == len(table)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


@given(rows)
def test_nothing_is_cut_in_a_pipe(table: list[list[str]]) -> None:
    for line, row in zip(table_lines(table[0], table[1:], None), table, strict=True):
        assert all(one_line(cell) in line for cell in row)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(0, 300))
def test_columns_fit_where_they_can_and_narrow_ones_stay_whole(widths: list[int], total: int) -> None:
    found = fitted(widths, total)
    assert sum(found) <= max(total, LEAST * len(widths))
    assert all(now <= was and (now == was or now >= LEAST) for now, was in zip(found, widths, strict=True))
    if sum(widths) <= total:
        assert found == widths
