"""A property is asked the same examples in each run, whatever has been imported before it."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    found = []

    @settings(max_examples=200, derandomize=True, database=None)
    @given(st.integers())
    def note(number: int) -> None:
        found.append(number)

    note()
    return found


def test_what_is_imported_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "imported_lately.py").write_text(f"NUMBERS = {list(range(10**6, 10**6 + 500))}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_lately")
    assert drawn() == before and len(set(before)) > 50
