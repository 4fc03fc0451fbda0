"""`tailwright nodes`: as the API has them, in a table, one by one, and what can be done with one."""

from typer.testing import CliRunner

from controlplane.command.main import app
from tests.controlplane.command.nouns.plane import Plane


def test_nodes_are_listed_by_name_and_as_the_api_has_them(plane: Plane) -> None:
    lines = plane.run("nodes", "list").stdout.splitlines()
    assert lines[0].split()[:3] == ["node", "pool", "role"]
    assert [line.split()[0] for line in lines[1:]] == ["gpu-1", "gpu-2", "try-1"]
    assert plane.json("nodes", "list") == plane.get("nodes")
    assert [node["node"] for node in plane.json("nodes", "list", "--role", "trial")["items"]] == ["try-1"]
    assert plane.json("nodes", "list", "--pool", "nowhere") == {"items": [], "next": None}
    none = plane.run("nodes", "list", "--pool", "nowhere")
    assert none.stdout == "" and none.stderr == "no node\n"


def test_nodes_are_chosen_by_a_selector(plane: Plane) -> None:
    found = plane.json("nodes", "list", "--selector", "role=serving, node notin (gpu-1)")["items"]
    assert [node["node"] for node in found] == ["gpu-2"] and found[0]["labels"] == {}
    assert plane.json("nodes", "list", "--selector", "region")["items"] == []
    wrong = plane.run("nodes", "list", "--selector", "region=", status=2)
    assert "--selector: at character 8: wants a value, got its end" in wrong.stderr


def test_one_node_is_shown(plane: Plane) -> None:
    assert plane.json("nodes", "show", "gpu-1") == plane.get("nodes/gpu-1")
    said = plane.run("nodes", "show", "gpu-1").stdout
    assert "pool" in said and "chat" in said and "runs" in said
    unknown = plane.run("nodes", "show", "gpu-9", status=1)
    assert "gpu-9" in unknown.stderr and unknown.stdout == ""


def test_a_trial_node_is_set_and_told_to_empty_its_cache(plane: Plane) -> None:
    assert "is given it" in plane.run("nodes", "set", "try-1", "max_num_seqs=16").stdout
    assert plane.json("nodes", "set", "try-1", "max_num_seqs=8") == plane.get("nodes/try-1")
    wrong = plane.run("nodes", "set", "try-1", "max_num_seq=8", status=1)
    assert "did you mean 'max_num_seqs'" in wrong.stderr
    assert plane.run("nodes", "set", "try-1", "max_num_seqs", status=2)
    assert plane.json("nodes", "reset-cache", "try-1")["desired_cache_reset"] == 1


def test_a_name_is_released_and_a_node_removed(plane: Plane) -> None:
    plane.enrol("old-1", "other")
    assert "until" in plane.run("nodes", "release", "old-1").stdout
    assert plane.json("nodes", "release", "old-1")["released_until"]
    assert plane.run("nodes", "remove", "old-1", "--json").stdout == ""
    assert "404" in plane.run("nodes", "remove", "old-1", status=1).stderr


def test_the_shell_completes_names_of_nodes(plane: Plane) -> None:
    env = {
        "_TAILWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": "tailwright nodes show gp",
        "COMP_CWORD": "3",
        "TAILWRIGHT_SERVER_URL": plane.url,
        "TAILWRIGHT_TOKEN": plane.token,
    }
    assert CliRunner().invoke(app, [], env=env, prog_name="tailwright").output.split() == ["gpu-1", "gpu-2"]
    away = {**env, "TAILWRIGHT_SERVER_URL": "http://127.0.0.1:9"}
    assert CliRunner().invoke(app, [], env=away, prog_name="tailwright").output.strip() == ""
