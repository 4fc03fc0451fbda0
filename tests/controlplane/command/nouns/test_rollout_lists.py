"""`tailwright rollout`: listed in a table, shown, started without waiting, watched to its end, cancelled."""

import pytest

from tests.controlplane.command.nouns.plane import Plane


@pytest.mark.slow
def test_a_rollout_is_proposed_shown_and_cancelled(plane: Plane) -> None:
    revision = plane.json("configs", "create", "max_num_seqs=16")["number"]
    wanted = {"pool": "chat", "revision": revision, "start": False, "reason": "to see"}
    number = plane.post("rollouts", wanted)["id"]
    assert plane.json("rollout", "list") == plane.get("rollouts")
    assert plane.json("rollout", "list", "--pool", "other")["items"] == []
    assert plane.json("rollout", "show", number)["spec"]["reason"] == "to see"
    said = plane.run("rollout", "show", number).stdout
    assert "proposed" in said and "to see" in said
    reached = plane.json("rollout", "reach", number)
    assert reached == plane.get(f"rollouts/{number}/blast-radius")
    assert reached["nodes"] >= 1
    to_come = ("--pool", "chat", "--revision", revision)
    assert plane.json("rollout", "reach", *to_come)["nodes_at_once"] == reached["nodes_at_once"]
    assert plane.run("rollout", "reach", *to_come).stdout.splitlines() == reached["says"]
    assert "leave out --pool" in plane.run("rollout", "reach", number, *to_come, status=2).stderr
    beyond = plane.run("rollout", "start", *to_come, "--max-traffic-share", "0", "--no-wait", status=1)
    assert "max_blast.traffic_share: " in beyond.stderr
    row = plane.run("rollout", "list").stdout.splitlines()[1].split()
    assert row[:3] == [str(number), "chat", str(revision)]
    assert f"rollout {number}: cancelled" in plane.run("rollout", "cancel", number).stdout
    assert f"rollout {number}: cancelled" in plane.run("rollout", "watch", number, status=1).stdout
    ended = plane.json("rollout", "watch", number, status=1)
    assert ended == plane.get(f"rollouts/{number}")
    assert "409" in plane.run("rollout", "start", number, status=1).stderr


def test_a_rollout_goes_by_labels(plane: Plane) -> None:
    revision = plane.json("configs", "create", "max_num_seqs=18")["number"]
    start = ("rollout", "start", "--pool", "chat", "--revision", revision, "--no-wait")
    by_label = ("--canary-selector", "node in (gpu-2)", "--wave-by", "node", "--wave-order", "gpu-2, gpu-1")
    by_label += ("--wave-soak-s", "60", "--wave-pause")
    assert "409" in plane.run(*start, *by_label, status=1).stderr, "no node is connected, and so none can be the canary"
    assert "canary_selector: no serving node" in plane.run(*start, "--canary-selector", "region=eu", status=1).stderr
    assert "--canary-selector: at character 1" in plane.run(*start, "--canary-selector", "=eu", status=2).stderr
    assert "wave_order: of which label" in plane.run(*start, "--wave-order", "eu", status=2).stderr
    assert "wave_pause: between the values of" in plane.run(*start, "--wave-pause", status=2).stderr
    several = ("--metrics", "ttft,itl", "--levels", "ttft=0.9,0.99", "--limits", "ttft:0.95<=0.5", "--tolerance", "0.2")
    made = plane.json(*start, *several, "--no-start", "--stages", "one,50%,all", "--reason", "by options")
    assert {**made["spec"], "limits": made["spec"]["limits"][0]["limit_s"]}.items() >= {
        "metrics": ["ttft", "itl"],
        "levels": {"ttft": [0.9, 0.99]},
        "limits": 0.5,
        "tolerance": 0.2,
        "start": False,
        "reason": "by options",
    }.items()
    assert [stage["share"] for stage in made["spec"]["stages"]] == [0, 0.5, 1]
    assert "leave out --tolerance" in plane.run("rollout", "start", made["id"], "--tolerance", "0.2", status=2).stderr
    assert "--canary-share: " in plane.run(*start, "--canary-share", "0.9", status=2).stderr
    plane.run("rollout", "cancel", made["id"])
    policy = {
        "pool": "chat",
        "wave_soak_s": 3600,
        "wave_pause": True,
        "wave_by": "region",
        "wave_order": ["eu-1"],
        "canary_selector": "gpu",
    }
    assert plane.http.put("/api/v1/rollout-policies", json=policy).status_code == 200
    said = plane.run("rollout-policies", "list").stdout
    assert "region eu-1, 3600 s apart, resumed" in said and "gpu" in said


@pytest.mark.slow
def test_a_change_is_told_before_it_is_made_and_refused_where_it_has_moved(plane: Plane) -> None:
    revision = plane.json("configs", "create", "max_num_seqs=17")["number"]
    number = plane.post("rollouts", {"pool": "chat", "revision": revision, "start": False})["id"]
    told = plane.json("rollout", "cancel", number, "--dry-run")
    assert told["rollout"]["phase"] == "cancelled"
    assert plane.get(f"rollouts/{number}")["phase"] == "proposed"
    assert "nothing was done; it would be cancelled" in plane.run("rollout", "cancel", number, "--dry-run").stdout
    assert "412" in plane.run("rollout", "cancel", number, "--if-match", f'"{number}-9"', status=1).stderr
    for refused in ("pause", "resume", "abort", "retry", "revert", "approve"):
        assert "409" in plane.run("rollout", refused, number, status=1).stderr
    assert f"rollout {number}: cancelled" in plane.run("rollout", "cancel", number).stdout


def test_a_freeze_is_made_listed_and_lifted(plane: Plane) -> None:
    times = ("2090-12-24T12:00:00+00:00", "2090-12-27T08:00:00+00:00")
    made = plane.json("freezes", "create", *times, "--reason", "holiday", "--pool", "chat")
    assert plane.json("freezes", "list")["items"] == [made]
    assert "holiday" in plane.run("freezes", "list").stdout
    assert "is lifted" in plane.run("freezes", "lift", made["id"]).stdout
    assert plane.json("freezes", "list")["items"] == []
    assert plane.json("pins", "list")["items"] == []
