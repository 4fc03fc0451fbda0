"""Marks tell markup apart, and words of them are read back as they were."""

from hypothesis import given
from hypothesis import strategies as st

from web.frame.marks import mark_of, marks_in, words_of_marks

PARTS = st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True)


@given(st.dictionaries(PARTS, st.text().map(mark_of)))
def test_words_of_marks_are_read_back(marks: dict[str, str]) -> None:
    assert marks_in(words_of_marks(marks)) == marks


@given(st.text(), st.text())
def test_other_markup_has_another_mark(one: str, other: str) -> None:
    assert (mark_of(one) == mark_of(other)) is (one == other)


@given(st.text())
def test_whatever_a_browser_says_is_no_error(words: str) -> None:
    assert words_of_marks(marks_in(words)) in ("", *words.split(",")) or "," in words


def test_what_is_no_mark_is_passed_over() -> None:
    mark = mark_of("x")
    assert marks_in(f"pools,recent.,a.{mark[1:]},b.{mark},c.{mark.upper()}x,.{mark}, d.{mark}") == {"b": mark}
