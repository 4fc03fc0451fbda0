"""`tailwright rollout`: listed in a table, shown, started without waiting, watched to its end, cancelled."""

from tests.controlplane.command.nouns.plane import Plane


def test_a_rollout_is_proposed_shown_and_cancelled(plane: Plane) -> None:
    revision = plane.json("configs", "create", "max_num_seqs=16")["number"]
    wanted = {"pool": "chat", "revision": revision, "start": False, "reason": "to see"}
    number = plane.post("rollouts", wanted)["id"]
    assert plane.json("rollout", "list") == plane.get("rollouts")
    assert plane.json("rollout", "list", "--pool", "other")["items"] == []
    assert plane.json("rollout", "show", number)["spec"]["reason"] == "to see"
    said = plane.run("rollout", "show", number).stdout
    assert "proposed" in said and "to see" in said
    row = plane.run("rollout", "list").stdout.splitlines()[1].split()
    assert row[:3] == [str(number), "chat", str(revision)]
    assert f"rollout {number}: cancelled" in plane.run("rollout", "cancel", number).stdout
    assert f"rollout {number}: cancelled" in plane.run("rollout", "watch", number, status=1).stdout
    ended = plane.json("rollout", "watch", number, status=1)
    assert ended == plane.get(f"rollouts/{number}")
    assert "409" in plane.run("rollout", "start", number, status=1).stderr
