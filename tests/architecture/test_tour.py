"""docs/tour.md: each file that a path names is there, and each step is reached as it says."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOUR = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
PATHS = [part for part in TOUR.split("\n## ")[1:] if part.startswith("The path of")]
STEP = re.compile(r"^\d+\. `([^`]+)`(.*)$", re.MULTILINE)


def imported(path: Path) -> set[str]:
    """The modules that a file imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return found


def module(name: str) -> str:
    return name.removesuffix(".py").replace("/", ".")


def test_there_are_two_paths_and_neither_grows() -> None:
    assert [len(STEP.findall(path)) for path in PATHS] == [15, 12]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.splitlines()[0])
def test_each_step_imports_its_neighbour_or_says_how_it_is_reached(path: str) -> None:
    steps = STEP.findall(path)
    for (before, _), (name, how) in pairwise(steps):
        if re.search(r"\((over|handed|asked|called|later|by)\b", how):
            continue
        assert module(before) in imported(ROOT / name) or module(name) in imported(ROOT / before), (before, name)


def test_every_place_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:controlplane|agents|tuner|web|tests|benchmarks|docs|deploy)/[^`]*)`", TOUR))
    assert named and [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_room_of_the_top_has_its_line() -> None:
    """By its path or, beside others of its package, by its name."""
    rooms = {
        path.parent.relative_to(ROOT)
        for top in ("controlplane", "agents", "tuner", "web")
        for path in (ROOT / top).glob("*/__init__.py")
    }
    assert rooms and [str(room) for room in sorted(rooms) if not re.search(rf"`(?:{room}|{room.name})/`", TOUR)] == []
