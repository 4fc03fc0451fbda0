"""Repeats: fewer in `make test`, all in `make long`, and none that only one of them has."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests import soak

ROOT = Path(__file__).parents[1]


def asking() -> list[Path]:
    """Files whose tests ask for a count by length."""
    return [path for path in ROOT.rglob("test_*.py") if "\nfrom tests.soak import soak\n" in path.read_text()]


@pytest.mark.parametrize("path", asking(), ids=lambda path: path.stem)
def test_who_asks_is_marked_and_has_more_at_length(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert "pytest.mark.soak" in ast.unparse(tree), "`make long` would not run it"
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "soak"]
    assert asked
    for call in asked:
        few, full = (ast.literal_eval(argument) for argument in call.args)
        assert 0 < few < full


@pytest.mark.parametrize(("at_length", "wanted"), [(False, (12, 10, 5, 10)), (True, (60, 20, 5, 25))])
def test_properties_have_a_fifth_of_their_examples_or_all(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, at_length: bool, wanted: tuple[int, ...]
) -> None:
    found: dict[str, int] = {}

    def note(name: str) -> None:
        found[name] = found.get(name, 0) + 1

    def asked(name: str, count: int) -> pytest.Function:
        @settings(max_examples=count, derandomize=True, database=None)
        @given(st.floats())
        def test(_: float) -> None:
            note(name)

        return pytest.Function.from_parent(request.node.parent, name=f"test_{name}", callobj=test)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            note("machine")

        @rule()
        def step(self) -> None:
            pass

    machine = Machine.TestCase
    machine.settings = settings(max_examples=25, stateful_step_count=2, derandomize=True, database=None)
    monkeypatch.setattr(soak, "AT_LENGTH", at_length)
    plain = pytest.Function.from_parent(request.node.parent, name="test_plain", callobj=lambda: None)
    items = [asked("many", 60), asked("some", 20), asked("few", 5), plain]
    whole = type("Whole", (), {"cls": machine, "obj": machine.runTest, "add_marker": lambda *_: None})()
    soak.shorten([*items, items[0], whole])
    for item in items:
        item.obj()
    machine("runTest").runTest()
    assert tuple(found[name] for name in ("many", "some", "few", "machine")) == pytest.approx(wanted, abs=1)
    assert [bool(item.get_closest_marker("soak")) for item in items] == [True, True, False, False]
