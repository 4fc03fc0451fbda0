"""A thing is told at once, its repeats by their number, and nothing is lost on the way."""

import random
from collections import Counter

from controlplane.auth.watch.repeats import Repeats

PERIOD_S = 10.0


class Told:
    """What was told, with a clock that is set."""

    def __init__(self, limit: int = 100) -> None:
        self.now_s = 1000.0
        self.lines: list[tuple[str, int]] = []
        self.repeats: Repeats[str] = Repeats(
            lambda what, again: self.lines.append((what, again)), PERIOD_S, limit, lambda: self.now_s
        )


def test_the_first_is_told_at_once_and_the_others_by_number_once_a_period() -> None:
    told = Told()
    for _ in range(300):
        told.repeats.note("a")
    told.repeats.note("b")
    assert told.lines == [("a", 0), ("b", 0)]
    told.now_s += PERIOD_S - 0.1
    told.repeats.tell_due()
    assert len(told.lines) == 2, "too early"
    told.now_s += 0.1
    told.repeats.tell_due()
    assert told.lines[2:] == [("a", 299)], "what did not come again has no second line"
    told.repeats.note("a")
    assert len(told.lines) == 3, "it goes on: it is not new"
    told.now_s += PERIOD_S
    told.repeats.tell_due()
    told.now_s += PERIOD_S
    told.repeats.tell_due()
    assert told.lines[3:] == [("a", 1)]
    told.repeats.note("a")
    assert told.lines[4:] == [("a", 0)], "after a period without it, it is new"


def test_one_more_than_the_limit_has_the_oldest_told() -> None:
    told = Told(limit=2)
    for what in ("a", "a", "a", "b", "c"):
        told.repeats.note(what)
    assert told.lines == [("a", 0), ("b", 0), ("c", 0), ("a", 2)]
    assert told.repeats.full


def test_whatever_comes_each_time_is_in_one_line() -> None:
    drawn = random.Random(7)
    for limit in (1, 3, 50):
        told, noted = Told(limit), Counter[str]()
        for _ in range(5000):
            what = drawn.choice("abcdefghij")
            told.repeats.note(what)
            noted[what] += 1
            told.now_s += drawn.choice((0.0, 0.0, 0.1, 3.0))
            if drawn.random() < 0.1:
                told.repeats.tell_due()
        told.repeats.tell_all()
        found: Counter[str] = Counter()
        for what, again in told.lines:
            found[what] += again or 1
        assert found == noted, limit
        told.repeats.tell_all()
        assert sum(again or 1 for _, again in told.lines) == noted.total(), "nothing twice"
