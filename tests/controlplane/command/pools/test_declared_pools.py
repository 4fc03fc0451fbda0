"""`tailwright plan` and `tailwright apply` of a pool's file on a real service: a rollout, a policy, and refusals."""

from pathlib import Path
from typing import Any

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    ("max_num_seqs", "max_num_seq", "config.max_num_seq: no such knob, did you mean 'max_num_seqs'?"),
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


@pytest.mark.slow
def test_what_is_wrong_is_named_and_nothing_is_changed(plane: Plane, chat: Path) -> None:
    for right, wrong, said in WRONG:
        chat.write_text(CHAT.replace(right, wrong, 1))
        refused = plane.run("apply", chat, status=1).stderr
        assert said in refused and str(chat) in refused and "nothing was changed" in refused
    assert not plane.get("rollouts")["items"] and not plane.get("rollout-policies")["items"]
    assert "First tokens" not in str(plane.get("alert-rules")["items"])


@pytest.mark.slow
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


HOOKS = """
[[hook]]
name = "load test"
kind = "confirm-promotion"
url_env = "CI_HOOK"
secret_file = "hook.secret"
on_silence = "hold"

[[hook]]
name = "chat room"
kind = "event"
url = "https://chat.example/room"
"""
CI, SIGNS = "https://ci.example/hooks/T0/hidden-part", "a-long-signing-secret"


@pytest.fixture
def hooked(chat: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pool's file with two hooks and nothing to roll out, and a hook of the pool that a person has set."""
    chat.write_text('[pool]\nname = "chat"\n' + HOOKS)
    chat.with_name("hook.secret").write_text(SIGNS + "\n")
    monkeypatch.setenv("CI_HOOK", CI)
    return chat


def by_hand(plane: Plane) -> None:
    body = {"pool": "chat", "name": "desk", "kind": "confirm-start", "url": "https://desk.example/x"}
    plane.http.put("/api/v1/rollout-hooks", json=body).raise_for_status()


def hooks_of(plane: Plane) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in plane.get("rollout-hooks")["items"]}


@pytest.mark.slow
def test_hooks_are_made_changed_and_removed_and_a_persons_is_left_and_said(plane: Plane, hooked: Path) -> None:
    by_hand(plane)
    planned = plane.run("plan", hooked, "--detailed-exitcode", status=2).stdout
    assert '+ hook "chat: load test"  (chat.toml)' in planned and "2 to create" in planned
    assert 'hook "desk" is left: no file of these made it' in planned
    assert list(hooks_of(plane)) == ["desk"], "a plan changes nothing"

    applied = plane.run("apply", hooked)
    made = hooks_of(plane)
    assert {name: one["origin"] for name, one in made.items()} == {
        "chat room": "chat.toml",
        "load test": "chat.toml",
        "desk": None,
    }
    assert made["load test"]["signed"] and made["load test"]["url"] == "https://ci.example/***"
    assert "no changes (2 as declared" in plane.run("plan", hooked, "--detailed-exitcode").stdout
    ledger = plane.get("ledger", limit=500)["items"]
    plane.run("apply", hooked)
    assert plane.get("ledger", limit=500)["items"] == ledger, "nothing changed, nothing is recorded"

    text = hooked.read_text()
    hooked.write_text(text.split('[[hook]]\nname = "chat room"')[0].replace('"hold"', '"roll_back"'))
    hooked.with_name("hook.secret").write_text("another-long-secret")
    planned = plane.run("plan", hooked).stdout
    assert 'on_silence: "hold" -> "roll_back"' in planned and 'secret: "***" -> "***"' in planned
    assert '"chat: chat room"  (chat.toml) is left: its file lacks it now; --prune removes it' in planned
    assert "1 removed" in plane.run("apply", hooked, "--prune").stdout
    assert set(hooks_of(plane)) == {"load test", "desk"} and hooks_of(plane)["load test"]["on_silence"] == "roll_back"
    said = planned + applied.output + str(plane.get("ledger", limit=500)) + plane.run("rollout-hooks", "list").stdout
    assert "hidden-part" not in said and SIGNS not in said and "another-long-secret" not in said
    assert "chat.toml" in plane.run("rollout-hooks", "list").stdout


@pytest.mark.slow
def test_what_is_wrong_with_a_hook_changes_nothing(plane: Plane, hooked: Path) -> None:
    text = hooked.read_text()
    for right, wrong, said in (
        ('kind = "event"', 'kind = "evnt"', "[[hook]] 2 'chat room': kind: "),
        ('"load test"', '"chat room"', "[[hook]] 2 'chat room': name: 'chat: chat room' is declared twice"),
        ('url = "https://chat', "url_kept = true\n#", "[[hook]] 2 'chat room': url_kept: "),
        ('[pool]\nname = "chat"', "", "[pool]: name: say which pool"),
        ('on_silence = "hold"', "on_silenc = 1", "[[hook]] 1 'load test': on_silenc: no such field"),
    ):
        hooked.write_text(text.replace(right, wrong, 1))
        refused = plane.run("apply", hooked, status=1).stderr
        assert said in refused and str(hooked) in refused and "nothing was changed" in refused, (wrong, refused)
    assert hooks_of(plane) == {}


def test_exported_hooks_are_as_declared(plane: Plane, hooked: Path) -> None:
    by_hand(plane)
    plane.run("apply", hooked)
    text = plane.run("configs", "export", "--pool", "chat").stdout
    assert text.count("[[hook]]") == 3 and "secret_kept = true" in text
    assert "hidden-part" not in text and SIGNS not in text and "room" not in text.replace("chat room", "")
    hooked.write_text(text)
    told = plane.run("plan", hooked, "--detailed-exitcode", "--prune").stdout
    assert "no changes (3 as declared" in told and "is left" not in told


def test_two_files_of_one_pool(plane: Plane, chat: Path) -> None:
    other = chat.with_name("other.toml")
    other.write_text(CHAT.split("[[alert_rule]]")[0])
    assert (
        f"{other}: [pool]: name: 'chat' is declared twice, before in {chat}"
        in plane.run("plan", chat, other, status=1).stderr
    )
