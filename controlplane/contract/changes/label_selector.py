"""Selectors of nodes by their labels, as Kubernetes writes label selectors: a parser, and what matches. Pure.

    region=eu-1, gpu in (H100, H200), stage != test, rack notin (r1), spot, !maintenance

Guarantees: `parsed(str(selector)) == selector`; a node without the label matches `!=`, `notin` and `!name`, and nothing
else; an error names the place in the text, what stands there, and what could.

Source: Kubernetes, "Labels and Selectors", equality-based and set-based requirements.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

LONGEST = 1000
MOST_REQUIREMENTS = 20
MOST_VALUES = 50
LONGEST_WORD = 128
FORMS = "name=value, name!=value, name in (a, b), name notin (a, b), name or !name"


class Operator(StrEnum):
    """How a requirement holds a label against its values."""

    IN = "in"  # It is there and one of them; of one value written `=`.
    NOT_IN = "notin"  # It is not there or none of them; of one value written `!=`.
    EXISTS = "exists"
    ABSENT = "absent"


@dataclass(frozen=True)
class Requirement:
    """One of a selector. values: sorted, each once; none of `EXISTS` and `ABSENT`."""

    name: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.name) in self.values
            case Operator.NOT_IN:
                return labels.get(self.name) not in self.values
            case Operator.EXISTS:
                return self.name in labels
            case Operator.ABSENT:
                return self.name not in labels

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.name
            case Operator.ABSENT:
                return f"!{self.name}"
        if len(self.values) == 1:
            return f"{self.name}{'=' if self.operator is Operator.IN else '!='}{self.values[0]}"
        return f"{self.name} {self.operator.value} ({', '.join(self.values)})"


@dataclass(frozen=True)
class Selector:
    """All of its requirements; without any it matches every node."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        return ", ".join(str(one) for one in self.requirements)


@dataclass(frozen=True)
class _Token:
    text: str
    place: int  # Of its first character, from 1.

    @property
    def is_word(self) -> bool:
        return self.text[:1].isalnum()


_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z0-9][A-Za-z0-9._:/-]*)|(?P<sign>==|!=|[=!,()])|(?P<other>\S))")
_END = ""


def parsed(text: str) -> Selector:
    """Raises `ValueError` that names the place, and says what could stand there."""
    if len(text) > LONGEST:
        raise ValueError(f"a selector has at most {LONGEST} characters, got {len(text)}")
    if not text.strip():
        return Selector()
    return Selector(tuple(_Parser(_tokens(text)).requirements()))


def _tokens(text: str) -> list[_Token]:
    found, place, end = [], 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        assert match is not None and match.lastgroup is not None  # Every other character is one of `other`.
        token = _Token(match[match.lastgroup], match.start(match.lastgroup) + 1)
        if match.lastgroup == "other":
            raise ValueError(f"at character {token.place}: {token.text!r} cannot stand here; write {FORMS}")
        if len(token.text) > LONGEST_WORD:
            raise ValueError(f"at character {token.place}: a word has at most {LONGEST_WORD} characters")
        found.append(token)
        place = match.end()
    return [*found, _Token(_END, end + 1)]


class _Parser:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = iter(tokens)
        self._now = next(self._tokens)

    def requirements(self) -> Iterator[Requirement]:
        for count in range(MOST_REQUIREMENTS + 1):
            if count == MOST_REQUIREMENTS:
                raise ValueError(f"at character {self._now.place}: a selector has at most {MOST_REQUIREMENTS} parts")
            yield self._requirement()
            if self._now.text == _END:
                return
            self._take(",", "a comma between two requirements")

    def _requirement(self) -> Requirement:
        if self._now.text == "!":
            self._next()
            return Requirement(self._word("a label's name"), Operator.ABSENT)
        name = self._word("a label's name")
        match self._now.text:
            case "=" | "==":
                return Requirement(name, Operator.IN, (self._value(),))
            case "!=":
                return Requirement(name, Operator.NOT_IN, (self._value(),))
            case "in":
                return Requirement(name, Operator.IN, self._values())
            case "notin":
                return Requirement(name, Operator.NOT_IN, self._values())
            case "," | "":
                return Requirement(name, Operator.EXISTS)
        raise self._wrong(f"=, !=, in, notin or a comma after {name!r}")

    def _value(self) -> str:
        self._next()
        return self._word("a value")

    def _values(self) -> tuple[str, ...]:
        self._next()
        self._take("(", "a list such as (a, b)")
        found = [self._word("a value")]
        while self._now.text == ",":
            self._next()
            if len(found) == MOST_VALUES:
                raise ValueError(f"at character {self._now.place}: a list has at most {MOST_VALUES} values")
            found.append(self._word("a value"))
        self._take(")", "a comma or the list's end, )")
        return tuple(sorted(set(found)))

    def _word(self, wanted: str) -> str:
        if not self._now.is_word:
            raise self._wrong(wanted)
        found = self._now.text
        self._next()
        return found

    def _take(self, text: str, wanted: str) -> None:
        if self._now.text != text:
            raise self._wrong(wanted)
        self._next()

    def _next(self) -> None:
        if self._now.text != _END:
            self._now = next(self._tokens)

    def _wrong(self, wanted: str) -> ValueError:
        there = "its end" if self._now.text == _END else repr(self._now.text)
        return ValueError(f"at character {self._now.place}: wants {wanted}, got {there}; write {FORMS}")


def _written(text: str) -> str:
    return str(parsed(text))


def _pattern() -> str:
    """The grammar as a regular expression, for the schema: what `parsed` takes, but for the length of the whole."""
    word, gap = rf"[A-Za-z0-9][A-Za-z0-9._:/-]{{0,{LONGEST_WORD - 1}}}", r"\s*"
    listed = rf"\({gap}{word}({gap},{gap}{word}){{0,{MOST_VALUES - 1}}}{gap}\)"
    one = rf"(!{gap}{word}|{word}({gap}(==?|!=){gap}{word}|\s+(in|notin){gap}{listed})?)"
    return rf"^{gap}({one}({gap},{gap}{one}){{0,{MOST_REQUIREMENTS - 1}}}{gap})?$"


PATTERN = _pattern()
SelectorText = Annotated[
    str, Field(max_length=LONGEST, json_schema_extra={"pattern": PATTERN}), AfterValidator(_written)
]
"""A selector as a field of a body: kept as `Selector` writes it."""
