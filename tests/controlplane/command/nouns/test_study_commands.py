"""`tailwright studies`: asked for, listed, claimed by a worker, followed to the end."""

import threading
from pathlib import Path

import pytest

from controlplane.command.nouns.study_commands import trial_columns
from controlplane.contract.bodies.studies import Trial
from controlplane.contract.planning.online_mode import OnlineStep, StepOutcome
from tests.controlplane.command.nouns.plane import Plane
from tests.processes import wait_for


@pytest.mark.slow
def test_a_study_is_asked_for_and_cancelled(plane: Plane, tmp_path: Path) -> None:
    made = plane.json("studies", "start", "--pool", "chat", "--constraint", "itl:0.99<=0.2", "--no-wait")
    number = made["id"]
    assert made["spec"]["constraints"] == [{"metric": "itl", "q": 0.99, "limit_s": 0.2}]
    slo = plane.json(
        "studies", "start", "--pool", "chat", "--slo", "chat", "--constraint", "itl:0.99<=0.1", "--no-wait"
    )
    assert [(one["metric"], one["limit_s"]) for one in slo["spec"]["constraints"]] == [("itl", 0.1), ("ttft", 1.0)]
    assert plane.json("studies", "cancel", slo["id"])["state"] == "cancelled"
    assert plane.json("studies", "list") == plane.get("studies")
    assert plane.json("studies", "list", "--pool", "other")["items"] == []
    assert plane.json("studies", "show", number)["id"] == number
    assert plane.json("studies", "trials", number) == {"items": [], "next": None}
    assert "limit   200 ms" in plane.run("studies", "show", number).stdout
    assert f"study {number} cancelled" in plane.run("studies", "cancel", number).stdout
    assert f"study {number} cancelled" in plane.run("studies", "watch", number, status=1).stdout
    file = tmp_path / "study.toml"
    file.write_text('pool = "chat"\nmax_trials = 3\nspace = { max_num_seqs = { minimum = 1, maximum = 8 } }\n')
    wanted = plane.json("studies", "start", "--file", file, "--no-wait")
    assert wanted["spec"]["space"]["max_num_seqs"]["maximum"] == 8
    assert plane.json("studies", "cancel", wanted["id"])["state"] == "cancelled"
    file.write_text('pool = "chat"\nmax_trails = 3\n')
    assert "did you mean 'max_trials'" in plane.run("studies", "start", "--file", file, status=1).stderr
    assert "say which pool" in plane.run("studies", "start", status=2).stderr


def test_all_of_a_study_can_be_said_by_options(plane: Plane, tmp_path: Path) -> None:
    start = ("studies", "start", "--pool", "chat", "--no-wait")
    options = ("--objective", "max_load", "--slo", "chat", "--load-replays", 9, "--max-duration-s", 3600)
    space = ("--space", "max_num_seqs=8..64:log", "--space", "quantization=none,int8", "--suggested", "max_num_seqs=16")
    quality = ("--most-logprob-drop", 0.02, "--evaluation", "mmlu", "--evaluation-margin", 0.02)
    also = ("--also", "cost", "--also", "tpot:0.5", "--also-tolerance", 0.2)
    price = ("--node-hour-price", 2.5, "--currency", "EUR")
    rollout = ("--no-propose-rollout", "--rollout", "canary_share=0.5", "--reason", "a busy evening")
    made = plane.json(*start, *options, *space, *quality, *also, *price, *rollout)
    spec = made["spec"]
    assert (spec["load_replays"], spec["max_duration_s"], spec["reason"]) == (9, 3600, "a busy evening")
    assert spec["space"]["max_num_seqs"] == {"minimum": 8, "maximum": 64, "log": True, "choices": None}
    assert spec["space"]["quantization"]["choices"] == ["none", "int8"]
    assert spec["suggested"] == [{"max_num_seqs": 16}] and spec["rollout"] == {"canary_share": 0.5}
    assert (spec["most_logprob_drop"], spec["evaluation"], spec["evaluation_margin"]) == (0.02, "mmlu", 0.02)
    assert [(one["objective"], one["objective_q"]) for one in spec["also"]] == [("cost", 0.95), ("tpot", 0.5)]
    assert (spec["also_tolerance"], spec["node_hour_price"], spec["currency"]) == (0.2, 2.5, "EUR")
    assert spec["propose_rollout"] is False and spec["auto_start_rollout"] is False
    plane.run("studies", "cancel", made["id"])
    assert "--also: wants METRIC:QUANTILE" in plane.run(*start, "--also", "tpot:x", status=2).stderr
    assert "--load-replays: " in plane.run(*start, "--load-replays", 3, status=2).stderr
    assert "space.max_num_seqs" in plane.run(*start, "--space", "max_num_seqs=64..8", status=1).stderr
    file = tmp_path / "study.json"
    file.write_text('{"pool": "chat"}')
    refused = plane.run("studies", "start", "--file", file, "--load-replays", 9, status=2).stderr
    assert "--load-replays: --file says all of a study" in refused


def test_a_study_in_production_is_asked_for_and_cancelled(plane: Plane) -> None:
    start = ("studies", "start", "--pool", "chat", "--no-wait")
    made = plane.json(*start, "--online", "step=1.5", "--online", 'hours={"opens": "22:00", "closes": "06:00"}')
    assert (made["spec"]["online"]["step"], made["spec"]["online"]["hours"]["closes"]) == (1.5, "06:00")
    assert made["spec"]["max_duration_s"] == 86400
    assert f"study {made['id']} cancelled" in plane.run("studies", "cancel", made["id"]).stdout
    refused = plane.run(*start, "--online", "careful", "--objective", "max_load", "--slo", "chat", status=1).stderr
    assert "max_load wants replays" in refused


def test_what_a_step_moved_is_told_with_its_rollout() -> None:
    step = OnlineStep(knob="max_num_seqs", before=4, value=8, rollout_id=3)
    about = {"id": 1, "study_id": 1, "number": 1, "kind": "step", "knobs": {}, "state": "running"}
    trial = Trial.model_validate({**about, "step": step.model_dump()})
    state = trial_columns()["state"]
    assert state(trial) == "max_num_seqs from 4 to 8: under way, rollout 3"
    refused = step.model_copy(update={"rollout_id": None, "outcome": StepOutcome.INCONCLUSIVE})
    assert (
        trial_columns()["state"](trial.model_copy(update={"step": refused})) == "max_num_seqs from 4 to 8: inconclusive"
    )


def test_a_worker_with_a_wrong_evaluation_does_not_start(plane: Plane) -> None:
    assert "evaluation: wants NAME=COMMAND" in plane.run("tune", "--evaluation", "mmlu", status=2).stderr
    wrong = plane.run("tune", "--evaluation", "mmlu=no-such-program-here", status=2).stderr
    assert "'no-such-program-here' is no program that can be run here" in wrong


def test_tune_asks_for_the_same_studies(plane: Plane) -> None:
    also = ("--also", "tpot:0.5", "--workload", "profile:chat@4", "--space", "max_num_seqs=8..64:log")
    own = ("--evaluation", "mmlu", "--objective", "ttft:0.95", "--trials", 5)
    # It follows the study to its end, which is no result.
    asked = threading.Thread(target=plane.run, args=("tune", "--pool", "chat", *also, *own), kwargs={"status": 1})
    asked.start()
    (study,) = wait_for("the study", lambda: plane.get("studies", state="queued")["items"])
    plane.post(f"studies/{study['id']}/cancel", {})
    asked.join(60)
    assert not asked.is_alive()
    started = plane.json("studies", "start", "--pool", "chat", "--no-wait", *also, *own)
    plane.run("studies", "cancel", started["id"])
    assert study["spec"] == started["spec"] and study["spec"]["workload"] == "profile:chat@4"
    for option, value in (("--also", "goodput"), ("--load", "2"), ("--trials", "5"), ("--slo", "chat")):
        assert f"{option}: is of a study" in plane.run("tune", option, value, status=2).stderr
    assert "wants the one name" in plane.run("tune", "--pool", "chat", "--evaluation", "mmlu=x", status=2).stderr


def test_a_study_with_a_key_is_asked_for_once(plane: Plane) -> None:
    start = ("studies", "start", "--pool", "chat", "--no-wait", "--idempotency-key", "nightly")
    before, made = len(plane.get("studies")["items"]), plane.json(*start)
    assert plane.json(*start) == made and len(plane.get("studies")["items"]) == before + 1
    assert "Idempotency-Key: was used" in plane.run(*start, "--trials", 5, status=1).stderr
    plane.run("studies", "cancel", made["id"])


def test_a_finished_study_says_its_result(plane: Plane) -> None:
    number = plane.json("studies", "start", "--pool", "chat", "--no-wait")["id"]
    assert plane.post("studies/claim", {"worker": "w"})["id"] == number
    token = plane.post(f"studies/{number}/leases", {"worker": "w", "node": "t"})["token"]
    trial = {"number": 0, "kind": "default", "knobs": {"max_num_seqs": 8}}
    plane.post(f"studies/{number}/leases/{token}/trial", trial)
    assert "running on t" in plane.run("studies", "show", number).stdout
    report = trial | {"state": "complete", "objective_s": 0.25}
    plane.http.post(f"/api/v1/studies/{number}/trials", params={"token": token}, json=report).raise_for_status()
    value = {"value_s": 0.25, "low_s": 0.2, "high_s": 0.3}
    member = {"number": 0, "runs": 2, "knobs": {"max_num_seqs": 8}, "values": {"e2e:0.95": value}, "keeps_limits": 0.9}
    result = {"verdict": "not_better", "default": {}, "summary": "keep what runs", "front": [member]}
    plane.post(f"studies/{number}/finish", {"worker": "w", "result": result})
    assert plane.run("studies", "watch", number).stdout.splitlines()[-1] == "keep what runs"
    assert plane.json("studies", "watch", number) == plane.get(f"studies/{number}")
    assert plane.json("studies", "trials", number) == plane.get(f"studies/{number}/trials")
    said = plane.run("studies", "show", number).stdout
    assert "What is left to choose among:" in said and "250 ms (200 ms to 300 ms)" in said and "90 %" in said
    assert "250 ms" in said and "max_num_seqs=8" in said and "keep what runs" in said
