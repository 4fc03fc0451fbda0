"""Which revision was in force when."""

import json
from pathlib import Path
from typing import Any

import pytest
from tailwright_vllm.revisions import Revisions


def _revisions(folder: Path, told: Any) -> Revisions:
    path = folder / "effective.json"
    path.write_bytes(told if isinstance(told, bytes) else json.dumps(told).encode())
    revisions = Revisions(path)
    revisions.look()
    return revisions


@pytest.mark.parametrize(
    ("time", "revision"), [(5.0, 0), (10.0, 0), (19.9, 0), (20.0, 4), (29.9, 4), (30.0, 3), (1e9, 3)]
)
def test_an_event_has_the_revision_of_its_own_time(tmp_path: Path, time: float, revision: int) -> None:
    assert _revisions(tmp_path, {"revision": 3, "history": [[10.0, 0], [20.0, 4], [30.0, 3]]}).at(time) == revision


def test_a_later_change_is_taken_up(tmp_path: Path) -> None:
    revisions = _revisions(tmp_path, {"revision": 1, "history": [[10.0, 1]]})
    (tmp_path / "effective.json").write_text(json.dumps({"revision": 2, "history": [[10.0, 1], [20.0, 2]]}))
    revisions.look()
    assert [revisions.at(time) for time in (15.0, 25.0)] == [1, 2]


@pytest.mark.parametrize(
    "damage", [b"", b"{half", b"[]", b'{"revision": "x"}', b'{"revision": 1, "history": [[1]]}', b"\xff", b"[" * 99999]
)
def test_damage_leaves_what_was_known(tmp_path: Path, damage: bytes) -> None:
    assert _revisions(tmp_path, damage).at(1.0) == 0
    revisions = _revisions(tmp_path, {"revision": 7})
    (tmp_path / "effective.json").write_bytes(damage + b" ")
    revisions.look()
    assert revisions.at(1.0) == 7


def test_without_a_file_no_revision_was_ever_given(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path / "effective.json")
    revisions.look()
    assert revisions.at(1.0) == 0
