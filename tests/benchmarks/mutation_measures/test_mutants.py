"""Which mistakes are made of a source, and which are not."""

import pytest

from benchmarks.mutation_measures.mutants import mutants

EVERY = 10**6


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants(source, EVERY, "1")}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("a < b", "a < b", "a >= b"),
        ("x is not None", "x is not None", "x is None"),
        ("a and b", "a and b", "a or b"),
        ("not a", "not a", "not not a"),
        ("n += m", "n += m", "n -= m"),
        ("LIMIT = 1.25", "LIMIT = 1.25", "LIMIT = 2.25"),
        ("f(share=0.3)", "share=0.3", "share=0.6"),
        ("FLAG = True", "FLAG = True", "FLAG = False"),
        ("def f():\n    return [1]", "return [1]", "return None"),
        ("async def f():\n    await stop()", "await stop()", "None"),
        ("def f(who: Admin): ...", "Admin", "Operator"),
        ("f(Scope.OPERATE)", "Scope.OPERATE", "Scope.READ"),
    ],
)
def test_a_mistake_of_each_kind(source: str, before: str, after: str) -> None:
    assert (before, after) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        "log.info('a', 1 + 2)",
        "assert a < b",
        "x: tuple[1]",
        "f'{a + 1}'",
        "@dataclass(frozen=True)\nclass A: ...",
        "zip(a, b, strict=True)",
        "def f():\n    return None",
        "'text'",
    ],
)
def test_what_nobody_relies_on_is_left_alone(source: str) -> None:
    assert not [change for change in changes(source) if "zip" not in change[0]]


def test_a_seed_draws_the_same_again_in_the_order_of_lines_and_names_the_function() -> None:
    source = "class A:\n    def f(self):\n        return self.a + 1\n\n    def g(self):\n        return 1 < 2\n"
    drawn = mutants(source, 3, "7")
    assert drawn == mutants(source, 3, "7") != mutants(source, 3, "8")
    assert [mutant.line for mutant in drawn] == sorted(mutant.line for mutant in drawn)
    assert {mutant.within for mutant in mutants(source, EVERY, "7")} == {"A.f", "A.g"}
    for mutant in mutants(source, EVERY, "7"):
        compile(mutant.source, "mutant", "exec")
