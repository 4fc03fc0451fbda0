"""`tailwright workloads`: files kept, told of and forgotten, by the command line against a real service."""

from pathlib import Path

from tests.controlplane.command.nouns.plane import Plane
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.trace import save

MADE = generate(fitted(CONV, max_input=512, max_output=64), seed=1, rate_per_s=5, requests=50)


def test_a_file_is_kept_and_a_study_replays_it(plane: Plane, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    save(MADE, file)
    made = plane.json("workloads", "add", "friday", "--file", file)
    assert made["format"] == "mooncake" and made["figures"]["requests"] == 50
    assert plane.json("workloads", "list") == plane.get("workloads")
    assert plane.json("workloads", "show", "friday") == made
    listed = plane.run("workloads", "list").stdout
    assert "friday" in listed and "prompts p50/p95/p99" in listed
    study = plane.json("studies", "start", "--pool", "chat", "--workload", "friday", "--no-wait")
    assert study["spec"]["workload"] == "friday"
    assert "friday" in plane.run("studies", "list").stdout
    assert (
        "did you mean 'chat'"
        in plane.run("studies", "start", "--pool", "chat", "--workload", "profile:chta@4", "--no-wait", status=1).stderr
    )
    plane.run("studies", "cancel", study["id"])
    assert "workload friday is removed" in plane.run("workloads", "remove", "friday").stdout
    assert "no workload 'friday'" in plane.run("workloads", "show", "friday", status=1).stderr


def test_a_part_is_kept_and_what_is_no_traffic_is_refused(plane: Plane, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    save(MADE, file)
    said = plane.run("workloads", "add", "part", "--file", file, "--requests", 20).stdout
    assert "workload part: 20 requests in" in said and "read as own" in said
    assert "kept already" in plane.run("workloads", "add", "part", "--file", file, status=1).stderr
    plane.run("workloads", "remove", "part")
    file.write_text("hello")
    assert "not recognised as traffic" in plane.run("workloads", "add", "x", "--file", file, status=1).stderr
    wrong = plane.run("workloads", "add", "x", "--file", file, "--format", "mooncake", status=1).stderr
    assert "line 1: not a Mooncake request" in wrong
