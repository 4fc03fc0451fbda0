"""`tailwright configs`: revisions as the API has them, made, and told apart."""

import pytest

from tests.controlplane.command.nouns.plane import Plane


@pytest.mark.slow
def test_revisions_are_made_listed_and_shown(plane: Plane) -> None:
    assert "max_num_seqs=16" in plane.run("configs", "create", "max_num_seqs=16", "--note", "why not").stdout
    made = plane.json("configs", "create", "max_num_seqs=8", "--base", 1)
    assert made == plane.get(f"configs/{made['number']}") == plane.json("configs", "show", made["number"])
    assert plane.json("configs", "list") == plane.get("configs")
    listed = plane.run("configs", "list").stdout
    assert "why not" in listed and "max_num_seqs=8" in listed
    assert "did you mean 'max_num_seqs'" in plane.run("configs", "create", "max_num_seq=8", status=1).stderr
    assert "404" in plane.run("configs", "show", 99, status=1).stderr


def test_two_revisions_are_compared(plane: Plane) -> None:
    one = plane.json("configs", "create", "max_num_seqs=4")["number"]
    two = plane.json("configs", "create", "max_num_seqs=2", "quantization=int8")["number"]
    rows = [line.split() for line in plane.run("configs", "diff", one, two).stdout.splitlines()]
    assert rows[1:] == [["max_num_seqs", "4", "2"], ["quantization", "none", "int8"]]
    told = plane.json("configs", "diff", one, two)
    assert told["old"] == plane.get(f"configs/{one}")
    assert told["differences"] == {
        "max_num_seqs": {"old": 4, "new": 2},
        "quantization": {"old": "none", "new": "int8"},
    }
    assert "the same knobs" in plane.run("configs", "diff", one, one).stdout
