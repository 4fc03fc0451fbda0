"""Regular expressions over labels' values, matched in linear time (Thompson's construction, CACM 11(6), 1968). Pure.

Guarantees: a value is matched as a whole; the work is at most `MOST_STATES` for each of its characters, whatever the
pattern, where a backtracking matcher may take for ever; what is not understood is refused, with its place.

Known: literals, `.`, classes `[a-z0-9_]` and `[^...]`, `\\d \\w \\s`, escaped signs, groups, `|` and `* + ? {n,m}`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from controlplane.contract.errors import BadRequest

LONGEST = 200
"""Characters of a pattern."""
MOST_STATES = 500
MOST_REPEATS = 100
SIGNS = frozenset("*+?{}()[]|.^$\\")

Range = tuple[str, str]
CLASSES: dict[str, tuple[Range, ...]] = {
    "d": (("0", "9"),),
    "w": (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")),
    "s": ((" ", " "), ("\t", "\r")),
}


@dataclass(frozen=True)
class Letters:
    """One character out of `ranges`, or with `others` one that is in none of them."""

    ranges: tuple[Range, ...] = ()
    others: bool = False

    def has(self, letter: str) -> bool:
        return any(low <= letter <= high for low, high in self.ranges) != self.others


@dataclass(frozen=True)
class Sequence:
    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Either:
    ways: tuple["Node", ...]


@dataclass(frozen=True)
class Repeated:
    """`most` None: without end."""

    part: "Node"
    least: int
    most: int | None


Node = Letters | Sequence | Either | Repeated


@dataclass
class Pattern:
    """The automaton. `steps`: of a state, the character that leads to the next one; `jumps`: those it is also."""

    steps: dict[int, tuple[Letters, int]] = field(default_factory=dict)
    jumps: dict[int, tuple[int, ...]] = field(default_factory=dict)
    start: int = 0
    count: int = 1  # State 0 is the end.

    def matches(self, value: str) -> bool:
        """Whether the whole value is of the pattern."""
        states = self._reached([self.start])
        for letter in value:
            ahead = (self.steps[state] for state in states if state in self.steps)
            states = self._reached([after for letters, after in ahead if letters.has(letter)])
            if not states:
                return False
        return 0 in states

    def _reached(self, states: list[int]) -> set[int]:
        found: set[int] = set()
        while states:
            state = states.pop()
            if state not in found:
                found.add(state)
                states.extend(self.jumps.get(state, ()))
        return found

    def add(self, node: Node, after: int) -> int:
        """The state from which what is left of the value has to be `node` and then what `after` wants."""
        if isinstance(node, Letters):
            made = self._new()
            self.steps[made] = (node, after)
            return made
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self.add(part, after)
            return after
        if isinstance(node, Either):
            ways = tuple(self.add(way, after) for way in node.ways)
            made = self._new()
            self.jumps[made] = ways
            return made
        return self._repeated(node, after)

    def _repeated(self, node: Repeated, after: int) -> int:
        if node.most is None:
            loop = self._new()
            self.jumps[loop] = (self.add(node.part, loop), after)
            after = loop
        for _ in range(0 if node.most is None else node.most - node.least):
            made = self._new()
            self.jumps[made] = (self.add(node.part, after), after)
            after = made
        for _ in range(node.least):
            after = self.add(node.part, after)
        return after

    def _new(self) -> int:
        if self.count >= MOST_STATES:
            raise BadRequest(f"the pattern is too large: repeat less, at most {MOST_STATES} steps in all")
        self.count += 1
        return self.count - 1


@lru_cache(maxsize=1_000)
def compiled(text: str) -> Pattern:
    """Raises `BadRequest` that says what is wrong, and at which character."""
    if len(text) > LONGEST:
        raise BadRequest(f"the pattern is longer than {LONGEST} characters")
    made = Pattern()
    reader = _Reader(text)
    node = reader.either()
    if reader.at < len(text):
        raise reader.wrong("a `)` without its `(`")
    made.start = made.add(node, 0)
    return made


class _Reader:
    """Recursive descent over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def wrong(self, what: str) -> BadRequest:
        return BadRequest(f"the pattern {self.text!r} has {what} at character {self.at + 1}")

    @property
    def ahead(self) -> str:
        """The next character; "" at the end."""
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def either(self) -> Node:
        ways = [self.sequence()]
        while self.ahead == "|":
            self.take()
            ways.append(self.sequence())
        return ways[0] if len(ways) == 1 else Either(tuple(ways))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.ahead and self.ahead not in "|)":
            parts.append(self.repeated())
        return Sequence(tuple(parts))

    def repeated(self) -> Node:
        part = self.one()
        if self.ahead not in ("*", "+", "?", "{"):
            return part
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.ahead) or self.bounds()
        self.take()
        if self.ahead and self.ahead in "*+?{":
            raise self.wrong("a repetition of a repetition")
        return Repeated(part, least, most)

    def bounds(self) -> tuple[int, int | None]:
        """Of `{n}`, `{n,}` and `{n,m}`; the closing brace is left."""
        inside, brace, _ = self.text[self.at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        numbers = [part for part in (low, high) if part]
        if not brace or not low or any(not part.isdecimal() or int(part) > MOST_REPEATS for part in numbers):
            raise self.wrong(f"a repetition that is none: wants {{n,m}}, up to {MOST_REPEATS},")
        least = int(low)
        most = int(high) if high else None if comma else least
        if most is not None and most < least:
            raise self.wrong("a repetition of fewer than its least")
        self.at += 1 + len(inside)
        return least, most

    def one(self) -> Node:
        if self.ahead in "*+?{":
            raise self.wrong("a repetition of nothing")
        if self.ahead in "^$":
            raise self.wrong("an anchor, where the whole value is matched anyway,")
        sign = self.take()
        if sign == ".":
            return Letters(others=True)
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.letters()
        return self.escaped() if sign == "\\" else Letters(((sign, sign),))

    def group(self) -> Node:
        if self.text[self.at : self.at + 2] == "?:":
            self.at += 2
        elif self.ahead == "?":
            raise self.wrong("a look-around or an option, which is not understood,")
        inside = self.either()
        if not self.ahead:
            raise self.wrong("a `(` without its `)`")
        self.take()
        return inside

    def escaped(self) -> Letters:
        if not self.ahead:
            raise self.wrong("a `\\` with nothing after it")
        sign = self.take()
        if sign.lower() in CLASSES and sign.isalpha():
            return Letters(CLASSES[sign.lower()], others=sign.isupper())
        if sign.isalnum():
            self.at -= 1
            raise self.wrong(f"an escape that is not understood, \\{sign},")
        return Letters(((sign, sign),))

    def letters(self) -> Letters:
        others = self.ahead == "^"
        self.at += others
        ranges = tuple(self.ranges())
        if not ranges:
            raise self.wrong("a class of no characters")
        return Letters(ranges, others)

    def ranges(self) -> Iterator[Range]:
        while self.ahead != "]":
            if not self.ahead:
                raise self.wrong("a `[` without its `]`")
            low = self.member()
            if isinstance(low, Letters):
                yield from low.ranges
            elif self.ahead == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.member()
                if isinstance(high, Letters) or high < low:
                    raise self.wrong("a range that is none")
                yield low, high
            else:
                yield low, low
        self.take()

    def member(self) -> str | Letters:
        """One character of a class, or a class within it."""
        sign = self.take()
        if sign != "\\":
            return sign
        found = self.escaped()
        if found.others:
            raise self.wrong("a negated class within a class")
        return found.ranges[0][0] if len(found.ranges) == 1 and found.ranges[0][0] == found.ranges[0][1] else found
