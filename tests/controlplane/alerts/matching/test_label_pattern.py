"""Patterns match what Python's `re` matches, in time that no pattern makes long, and say what is wrong with them."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.matching.label_pattern import LONGEST, Letters, compiled
from controlplane.contract.errors import BadRequest

ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", "-"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abc.-1 ", max_size=8))
def test_it_matches_what_re_matches(pattern: str, value: str) -> None:
    assert compiled(pattern).matches(value) == bool(re.fullmatch(pattern, value))


@pytest.mark.parametrize(
    ("pattern", "value", "wanted"),
    [
        ("chat.*", "chat-eu", True),
        ("chat", "chat-eu", False),
        ("", "", True),
        ("", "x", False),
        ("gpu-[0-9]{1,3}", "gpu-1000", False),
        ("(?:a|b)c", "bc", True),
        (r"[\d_-]+", "1_2-3", True),
        (r"[\]]", "]", True),
        (r"\S+\s\D", "a b", True),
        (".", "\n", True),
        ("é+", "éé", True),
    ],
)
def test_by_example(pattern: str, value: str, wanted: bool) -> None:
    assert compiled(pattern).matches(value) is wanted


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)x", "(a?){30}a{30}b", "((a+)+)+b"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    began = time.process_time()
    assert not compiled(pattern).matches("a" * 1_000)
    assert time.process_time() - began < 5.0, "a backtracking matcher would not end within a lifetime"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(", "a `(` without its `)` at character 3"),
        ("a)", "a `)` without its `(` at character 2"),
        ("[a", "a `[` without its `]`"),
        ("[]", "a class of no characters"),
        ("[z-a]", "a range that is none"),
        ("*a", "a repetition of nothing at character 1"),
        ("a**", "a repetition of a repetition"),
        ("a{2,1}", "a repetition of fewer than its least"),
        ("a{x}", "a repetition that is none"),
        ("a{101}", "up to 100"),
        ("^a$", "an anchor, where the whole value is matched anyway"),
        ("(?=a)", "a look-around or an option"),
        (r"\1", r"an escape that is not understood, \1, at character 2"),
        ("a\\", "with nothing after it"),
        ("((a{100}){100})", "the pattern is too large"),
        ("a" * (LONGEST + 1), f"longer than {LONGEST} characters"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(pattern: str, said: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(said)):
        compiled(pattern)


@given(st.text("ab()[]{}*+?|.^$\\-,12", max_size=12))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        found = compiled(text)
    except BadRequest:
        return
    assert isinstance(found.matches("ab"), bool)
    assert all(isinstance(letters, Letters) for letters, _ in found.steps.values())
