"""`tailwright prompts`: a file kept, told of and forgotten, by the command line against a real service."""

import json
from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane


@pytest.mark.slow
def test_a_file_is_kept_and_a_study_replays_it(plane: Plane, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": f"Order {place}?", "max_tokens": 9}) for place in range(30)))
    made = plane.json("prompts", "add", "support", "--file", file, "--prompts", 20)
    assert made["figures"] == {"prompts": 20, "characters": {"p50": 8, "p95": 9, "p99": 9}, "with_max_tokens": 20}
    assert plane.json("prompts", "list") == plane.get("prompt-sets")
    assert plane.json("prompts", "show", "support") == made
    listed = plane.run("prompts", "list").stdout
    assert "support" in listed and "characters p50/p95/p99" in listed
    study = plane.json("studies", "start", "--pool", "chat", "--prompts", "support", "--no-wait")
    assert study["spec"]["prompts"] == "support"
    plane.run("studies", "cancel", study["id"])
    assert "kept already" in plane.run("prompts", "add", "support", "--file", file, status=1).stderr
    assert "prompt set support is removed" in plane.run("prompts", "remove", "support").stdout
    assert "no prompt set 'support'" in plane.run("prompts", "show", "support", status=1).stderr
    said = plane.run("prompts", "add", "all", "--file", file).stdout
    assert said == "prompt set all: 30 prompts, half of them of up to 9 characters\n"
    plane.run("prompts", "remove", "all")
    file.write_text("hello")
    assert "line 1: no JSON" in plane.run("prompts", "add", "x", "--file", file, status=1).stderr
