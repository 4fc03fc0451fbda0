"""`tailwright plan` and `tailwright apply` of a pool's file on a real service: a rollout, a policy, and refusals."""

from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane

CHAT = """
[pool]
name = "chat"
[pool.config]
max_num_seqs = 64
prefill_chunk_size = 128
[pool.policy]
max_step_share = 0.5

[rollout]
tolerance = 0.2
start = false

[slo]
limits = [{ metric = "ttft", q = 0.95, limit_s = 0.8 }]

[[alert_rule]]
name = "First tokens"
pool = "chat"
[alert_rule.condition]
kind = "absolute"
limits = [{ metric = "ttft", q = 0.95, limit_s = 0.8 }]
"""


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    (tmp_path / "chat.toml").write_text(CHAT)
    return tmp_path / "chat.toml"


def test_a_plan_tells_all_and_changes_nothing(plane: Plane, chat: Path) -> None:
    revisions = plane.get("configs")["items"]
    said = plane.run("plan", "-f", chat).stdout
    assert "~ max_num_seqs: 32 -> 64" in said and "~ policy.max_step_share: null -> 0.5" in said
    assert "a rollout would bring the configuration:" in said and "reaches" in said
    assert '+ alert rule "First tokens"' in said
    plane.run("plan", chat, "--detailed-exitcode", status=2)
    assert plane.get("configs")["items"] == revisions and not plane.get("rollouts")["items"]
    assert not plane.get("rollout-policies")["items"]


def test_what_is_applied_is_a_rollout_and_then_there_is_nothing_to_do(plane: Plane, chat: Path) -> None:
    told = plane.json("apply", chat, "--commit", "3f2a1c9")
    (rollout,) = plane.get("rollouts")["items"]
    assert told["pools"][0]["rollout"] == rollout["id"] and rollout["phase"] == "proposed"
    spec = rollout["spec"]
    assert spec["reason"] == "chat.toml at 3f2a1c9" and spec["tolerance"] == 0.2 and spec["max_step_share"] == 0.5
    assert [(one["metric"], one["limit_s"]) for one in spec["limits"]] == [("ttft", 0.8)]
    made = plane.get(f"configs/{spec['revision']}")
    assert made["knobs"]["max_num_seqs"] == 64 and made["knobs"]["prefill_chunk_size"] == 128
    assert made["note"] == "chat.toml at 3f2a1c9"
    assert [one["policy"] for one in told["pools"]] == [[{"field": "policy.max_step_share", "old": None, "new": 0.5}]]

    again = plane.run("plan", chat, "--detailed-exitcode").stdout
    assert f"no rollout: rollout {rollout['id']} brings it: proposed" in again
    plane.run("apply", chat)
    assert [one["id"] for one in plane.get("rollouts")["items"]] == [rollout["id"]]


def test_what_went_back_is_not_tried_again_by_itself(plane: Plane, chat: Path) -> None:
    plane.run("apply", chat)
    (first,) = plane.get("rollouts")["items"]
    plane.run("rollout", "cancel", first["id"])
    assert f"rollout {first['id']} of it ended cancelled" in plane.run("apply", chat).stdout
    assert len(plane.get("rollouts")["items"]) == 1
    plane.run("apply", chat, "--again")
    assert len(plane.get("rollouts")["items"]) == 2


def test_another_rollout_under_way_is_waited_for(plane: Plane, chat: Path) -> None:
    revision = plane.json("configs", "create", "max_num_seqs=8")["number"]
    plane.post("rollouts", {"pool": "chat", "revision": revision, "emergency": True, "reason": "it crashes"})
    said = plane.run("apply", chat, status=1).stderr
    assert "is under way" in said and "nothing was changed" in said
    assert not plane.get("rollout-policies")["items"]
    assert "First tokens" not in str(plane.get("alert-rules")["items"])


WRONG = (
    ("max_num_seqs", "max_num_seq", "[pool.config]: max_num_seq: no such field, did you mean 'max_num_seqs'?"),
    ("max_num_seqs = 64", "max_num_seqs = 0", "config.max_num_seqs: "),
    ("max_step_share = 0.5", "max_step_share = 3", "policy.max_step_share: "),
    ("tolerance = 0.2", "tolerance = 'much'", "tolerance: "),
    ("start = false", "emergency = true", "[rollout]: emergency: no such field"),
    ('name = "chat"', 'name = "chatt"', "pool 'chatt' has no serving node"),
    ("[rollout]", "[rolout]", "[[rolout]]: no such table, did you mean 'rollout'?"),
    ("limits = [{", "limit = [{", "[slo]: limit: no such field, did you mean 'limits'?"),
    ("[pool.config]", "config = 3\n[pool.more]", "pool.config: wants a table"),
)
"""What stands in the file, what is written instead, and what is said of it."""


def test_what_is_wrong_is_named_and_nothing_is_changed(plane: Plane, chat: Path) -> None:
    for right, wrong, said in WRONG:
        chat.write_text(CHAT.replace(right, wrong, 1))
        refused = plane.run("apply", chat, status=1).stderr
        assert said in refused and str(chat) in refused and "nothing was changed" in refused
    assert not plane.get("rollouts")["items"] and not plane.get("rollout-policies")["items"]
    assert "First tokens" not in str(plane.get("alert-rules")["items"])


def test_what_is_exported_is_as_declared(plane: Plane, tmp_path: Path) -> None:
    exported = tmp_path / "exported.toml"
    exported.write_text(plane.run("configs", "export", "--pool", "chat").stdout)
    assert "max_num_seqs = 32" in exported.read_text()
    assert "as declared" in plane.run("plan", exported, "--detailed-exitcode").stdout
    assert "--set max_num_seqs=32" in plane.run("configs", "export", "--pool", "chat", "--as", "args").stdout
    manifest = tmp_path / "vllm.yaml"
    manifest.write_text('args:\n  - --max-num-seqs\n  - "256"\n')
    told = plane.run("configs", "export", "--pool", "chat", "--as", "patch", "--against", manifest)
    assert '-  - "256"\n+  - "32"' in told.stdout and "does not name" in told.stderr
    assert "--against" in plane.run("configs", "export", "--pool", "chat", "--as", "patch", status=2).stderr
    assert "no serving node" in plane.run("configs", "export", "--pool", "none", status=2).stderr


def test_two_files_of_one_pool(plane: Plane, chat: Path) -> None:
    other = chat.with_name("other.toml")
    other.write_text(CHAT.split("[[alert_rule]]")[0])
    assert (
        f"{other}: [pool]: name: 'chat' is declared twice, before in {chat}"
        in plane.run("plan", chat, other, status=1).stderr
    )
