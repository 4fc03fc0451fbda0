"""Selectors as Kubernetes writes them: what matches, what is written back, and how a wrong one is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.label_selector import LONGEST, PATTERN, Operator, Requirement, Selector, parsed

words = st.sampled_from(["in", "notin", "eu-1", "a", "x.y/z", "9"]) | st.from_regex(
    r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,12}", fullmatch=True
)
lists = st.lists(words, min_size=1, max_size=4).map(lambda found: tuple(sorted(set(found))))
requirements = st.builds(Requirement, words, st.sampled_from([Operator.IN, Operator.NOT_IN]), lists) | st.builds(
    Requirement, words, st.sampled_from([Operator.EXISTS, Operator.ABSENT])
)
selectors = st.lists(requirements, max_size=5).map(lambda found: Selector(tuple(found)))
labels = st.dictionaries(words, words, max_size=6)


@given(selectors)
def test_what_is_written_is_read_as_it_was(selector: Selector) -> None:
    assert parsed(str(selector)) == selector
    assert parsed(f"  {str(selector).replace(', ', ' ,')} ") == selector, "blanks do not count"


@given(selectors, labels)
def test_a_selector_matches_where_each_of_its_requirements_does(selector: Selector, said: dict[str, str]) -> None:
    assert selector.matches(said) == all(Selector((one,)).matches(said) for one in selector.requirements)


@given(words, lists, labels)
def test_each_operator_has_its_contrary(name: str, values: tuple[str, ...], said: dict[str, str]) -> None:
    def matches(operator: Operator, *values: str) -> bool:
        return Requirement(name, operator, values).matches(said)

    assert matches(Operator.IN, *values) is not matches(Operator.NOT_IN, *values)
    assert matches(Operator.EXISTS) is not matches(Operator.ABSENT)
    assert not (matches(Operator.ABSENT) and matches(Operator.IN, *values)), "what is not there is none of them"


@given(st.text(max_size=40) | st.text(alphabet="ab =!,()in", max_size=20))
def test_any_text_is_a_selector_or_is_refused_with_its_place(text: str) -> None:
    try:
        found = parsed(text)
    except ValueError as error:
        assert "at character " in str(error)
    else:
        assert parsed(str(found)) == found


def _is_read(text: str) -> bool:
    try:
        parsed(text)
    except ValueError:
        return False
    return True


@given(st.text(max_size=40) | st.text(alphabet="ab =!,()in\t\x1c", max_size=20) | selectors.map(str))
def test_the_schema_takes_what_the_parser_does(text: str) -> None:
    assert (re.search(PATTERN, text) is not None) == _is_read(text)


@pytest.mark.parametrize("text", ["a" * 128, ",".join(["a"] * 20), f"a in ({','.join(['b'] * 50)})"])
def test_the_schema_has_the_parsers_bounds(text: str) -> None:
    assert re.search(PATTERN, text) and _is_read(text)
    more = text.replace("a", "aa") if set(text) == {"a"} else re.sub(r"[ab](?=\)|$)", "b,b", text)
    assert not re.search(PATTERN, more) and not _is_read(more)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("region==eu-1,gpu in (H100,H200)", "region=eu-1, gpu in (H100, H200)"),
        ("gpu in (H100)", "gpu=H100"),
        ("rack notin(r2,r1,r2)", "rack notin (r1, r2)"),
        ("spot, !maintenance,stage!=test", "spot, !maintenance, stage!=test"),
    ],
)
def test_a_selector_has_one_way_to_be_written(text: str, written: str) -> None:
    assert str(parsed(text)) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("region=", "at character 8: wants a value, got its end"),
        ("region eu-1", "at character 8: wants =, !=, in, notin or a comma after 'region', got 'eu-1'"),
        ("a=b c=d", "at character 5: wants a comma between two requirements, got 'c'"),
        ("gpu in H100", "at character 8: wants a list such as (a, b), got 'H100'"),
        ("gpu in (H100", "at character 13: wants a comma or the list's end, ), got its end"),
        ("gpu in ()", "at character 9: wants a value, got ')'"),
        ("a=b,", "at character 5: wants a label's name, got its end"),
        ("a~b", "at character 2: '~' cannot stand here"),
        ("a" * 129, "at character 1: a word has at most 128 characters"),
        (",".join(["a"] * 21), "a selector has at most 20 parts"),
        (f"a in ({','.join(['b'] * 51)})", "a list has at most 50 values"),
        ("a" * (LONGEST + 1), "a selector has at most 1000 characters, got 1001"),
    ],
)
def test_a_wrong_one_names_the_place_and_the_mend(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        parsed(text)
    assert said in str(caught.value)
