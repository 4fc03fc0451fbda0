"""The worker against a small control plane and a small engine, both over real HTTP."""

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sse_engine import SseEngine
from study_service import NOW, StudyService

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import StudyCreate, StudyState, StudyVerdict
from controlplane.contract.bodies.workload import PromptSetCreate, Workload, WorkloadCreate
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.packed_prompts import Prompt, packed_prompts
from controlplane.contract.planning.packed_traffic import packed
from controlplane.contract.planning.traffic_mix import unpacked_mix
from tests.processes import wait_for
from tuner.evaluation.evaluation_command import Evaluations
from tuner.replay.completion import RequestTiming, pool_samples
from tuner.replay.replay import ReplayResult
from tuner.study.renewals import Lease
from tuner.study.study_run import SETTLE, Hooks, StudyRun
from tuner.study.trial_node import TrialNode, find_trial_nodes
from tuner.study.worker import Worker
from tuner.workload.capture import describe
from tuner.workload.generate import CONV, fitted, generate

pytestmark = pytest.mark.slow

BAD = EngineConfig(max_num_batched_tokens=24).knobs()
OTHER = generate(fitted(CONV, max_input=256, max_output=8), seed=2, rate_per_s=9, requests=90)
WORKLOAD = generate(fitted(CONV, max_input=256, max_output=8), seed=1, rate_per_s=12, requests=120)


def _spec(**other: Any) -> StudyCreate:
    wanted: dict[str, Any] = {
        "pool": "p",
        "objective": "ttft",
        "objective_q": 0.95,
        "constraints": [Limit(metric="itl", q=0.99, limit_s=0.5)],
        "space": {"max_num_batched_tokens": {"choices": [24, 128, 512]}},
        "max_trials": 3,
        "max_duration_s": 120,
        "trial_requests": 8,
        "finalist_repeats": 3,
        "rollout": {"canary_share": 0.5},
    }
    return StudyCreate.model_validate(wanted | other)


@pytest.fixture(autouse=True)
def _short_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.time_plan.SHORTEST_SPAN_S", 0.7)
    monkeypatch.setattr("tuner.study.time_plan.LONGEST_SPAN_S", 0.7)
    monkeypatch.setattr("tuner.study.remeasure.USUAL_PAIRS", 3)


@pytest.fixture
def slow_prefill(engine: SseEngine) -> SseEngine:
    """A prompt takes a step of 30 ms for each budget of tokens: far more than a machine adds that does nothing else."""
    engine.prefill = lambda e, length: 0.03 * -(-length // e.knobs["max_num_batched_tokens"])
    engine.gap = lambda _, __: 0.002
    return engine


@pytest.fixture
def service(slow_prefill: SseEngine, request: pytest.FixtureRequest) -> Iterator[StudyService]:
    spec = _spec(**getattr(request, "param", {}))
    with StudyService([slow_prefill], spec, WORKLOAD, BAD) as running:
        yield running


@pytest.fixture
def at_once(service: StudyService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays end at once, and each request took what the engine would have waited: no machine gets into a verdict."""
    engine = service.engine

    def run(_: TrialNode, workload: Workload, texts: Sequence[Sequence[int]], **how: Any) -> ReplayResult:
        timings = []
        for index, (request, text) in enumerate(zip(workload.requests, texts, strict=True)):
            tokens, first_s = request.output_length, engine.prefill(engine, len(text))
            gaps_s = [engine.gap(engine, len(text))] * (tokens - 1)
            timing = RequestTiming(index, request.timestamp / 1000, ttft_s=first_s, gaps_s=gaps_s, output_tokens=tokens)
            timing.e2e_s = first_s + sum(gaps_s)
            timings.append(timing)
        return ReplayResult(timings, 0.7, 0.0, samples=pool_samples(timings))

    monkeypatch.setattr(TrialNode, "run", run)


def _work(service: StudyService, evaluations: Evaluations | None = None) -> None:
    with Client(service.url, service.token) as client:
        assert Worker(client, "w", heartbeat_s=0.2, evaluations=evaluations).once()


@pytest.mark.clock
def test_a_bad_default_is_found_and_a_rollout_proposed(service: StudyService) -> None:
    _work(service)
    study = service.study
    assert study.state is StudyState.FINISHED and study.result is not None, study.error
    assert study.result.verdict is StudyVerdict.BETTER, study.result.summary
    assert study.result.winner is not None and study.result.winner["max_num_batched_tokens"] in (128, 512)
    assert study.result.interval is not None and study.result.interval[0] > 0
    finalists = [trial for trial in service.trials if trial.kind == "finalist"]
    assert [trial.kind for trial in service.trials[:3]] == ["default", "search", "search"]
    heats, pairs = finalists[:-6], finalists[-6:]
    assert 2 <= len(heats) <= 4 and study.result.repeats == 3 and BAD not in [trial.knobs for trial in heats]
    assert [trial.knobs == BAD for trial in pairs] == [True, False, False, True, True, False]
    assert study.result.payback_s is not None and "repaid after" in study.result.summary
    assert service.trials[0].knobs == BAD and [t.number for t in service.trials] == list(range(3 + len(finalists)))
    assert study.rollout_id == 4
    assert service.rollouts[0]["start"] is False and service.rollouts[0]["canary_share"] == 0.5
    proposed = service.rollouts[0]
    assert (proposed["objective"], proposed["objective_q"]) == ("ttft", 0.95)
    assert proposed["limits"] == [{"metric": "itl", "q": 0.99, "limit_s": 0.5}]
    assert study.result.default_revision == 1 and study.result.default == BAD
    assert service.rollouts[0]["study_id"] == 1 and service.configs[0]["knobs"] == study.result.winner
    assert service.applied[-1] == BAD  # The trial node is left as the pool is.
    assert service.engine.resets >= 9
    assert study.workload_summary["captured"]["requests"] == 120
    assert study.workload_summary["fresh_slice"]["apart"] is True
    assert any("measured again" in beat.progress for beat in service.beats)
    assert {trial.worker for trial in service.trials} == {"w"} and {trial.node for trial in service.trials} == {"t1"}
    assert [trial.order.pair for trial in pairs] == [0, 0, 1, 1, 2, 2]


def test_the_newest_traffic_is_that_of_the_services_clock(
    service: StudyService, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's machine may have another time: what it takes for now may have had no traffic at all."""
    monkeypatch.setattr("study_service.utc_now", lambda: NOW)
    _work(service)
    assert service.study.state is StudyState.FINISHED, service.study.error
    assert service.captured_until == NOW - SETTLE


@pytest.mark.parametrize("service", [{"prompts": "support", "max_trials": 3, "finalists": 1}], indirect=True)
def test_a_studys_own_prompts_are_what_is_replayed(
    service: StudyService, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Workload, Sequence[Sequence[int]]]] = []
    inner = TrialNode.run

    def run(node: TrialNode, workload: Workload, texts: Sequence[Sequence[int]], **how: Any) -> ReplayResult:
        if "bounds" in how:
            sent.append((workload, texts))
        return inner(node, workload, texts, **how)

    monkeypatch.setattr(TrialNode, "run", run)
    own = [Prompt("SHOP: " + f"{place}" * (10 + 7 * place)) for place in range(60)]
    wanted = PromptSetCreate(name="support", prompts=packed_prompts(own))
    with Client(service.url, service.token) as client:
        client.add_prompt_set(wanted)
        _work(service)
        told = service.study.workload_summary["prompts"]
        assert (told["name"], told["prompts"]) == ("support", 60) and told["cut"] + told["joined"] > 0
        assert service.study.workload_summary["primed"] == {"prefixes": 0, "blocks": 0}
        assert service.study.result is not None, service.study.error
        begin = [ord(letter) for letter in "SHOP: "]
        for workload, texts in sent:
            assert [len(text) for text in texts] == [one.input_length for one in workload.requests]
            assert all(text[:6] == begin[: len(text)] for text in texts)
        second = service.create(service.study.spec)
        client.remove_prompt_set("support")
        _work(service)
        assert "no prompt set 'support'" in service.read(second).error


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("accepted", "differs"), [([42, 38, 40, 44], False), ([72, 68, 70, 74], True)])
def test_drafts_accepted_in_replays_are_told_beside_those_in_production(
    service: StudyService, monkeypatch: pytest.MonkeyPatch, accepted: list[float], differs: bool
) -> None:
    service.drafts = {"draft_tokens": [100.0] * 4, "accepted_tokens": accepted}
    service.engine.drafts = (0, 0)
    counted = TrialNode.run

    def run(node: TrialNode, workload: Workload, texts: Sequence[Sequence[int]], **how: Any) -> ReplayResult:
        drafted, kept = service.engine.drafts or (0, 0)
        service.engine.drafts = drafted + 20 * len(texts), kept + 8 * len(texts)
        return counted(node, workload, texts, **how)

    monkeypatch.setattr(TrialNode, "run", run)
    _work(service)
    study = service.study
    assert study.result is not None and study.result.acceptance is not None, study.error
    found = study.result.acceptance
    assert (found.replayed.share, found.production.share) == (0.4, pytest.approx(sum(accepted) / 400))
    assert found.differs is differs
    assert study.workload_summary["drafts_in_production"]["drafted"] == 400
    for trial in service.trials:
        assert trial.measurement is not None and trial.measurement.acceptance == 0.4
        assert trial.measurement.drafted == 20 * trial.measurement.requests


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("service", [{"auto_start_rollout": True}], indirect=True)
def test_a_pool_that_has_changed_meanwhile_gets_a_proposal_that_waits_and_says_so(service: StudyService) -> None:
    service.promotes = EngineConfig(max_num_batched_tokens=48).knobs()
    _work(service)
    result = service.study.result
    assert result is not None and result.verdict is StudyVerdict.BETTER
    assert "measured against revision 1; the pool runs revision 2 by now" in result.summary
    assert service.rollouts[0]["start"] is False


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "service", [{"space": {"max_num_batched_tokens": {"choices": [24, 64, 96, 128]}}}], indirect=True
)
def test_what_a_study_has_found_is_the_next_ones_first_point(service: StudyService) -> None:
    _work(service)
    winner = service.study.result and service.study.result.winner
    second = service.create(service.study.spec)
    _work(service)
    assert service.read(second).workload_summary["remembered_of"] == [1]
    assert service.study.workload_summary["remembered_of"] == []
    space = service.study.workload_summary["space"]
    assert space["values"] == {"max_num_batched_tokens": [24, 64, 96, 128]}
    assert {"knob": "max_num_seqs", "values": [], "why": "the study was asked to search others"} in space["left_out"]
    (first,) = (trial for trial in service.trials_of(second) if trial.number == 1)
    assert winner is not None and first.knobs == winner


@pytest.mark.usefixtures("at_once")
def test_what_single_nodes_run_is_not_the_default(service: StudyService) -> None:
    """A canary, first by its name, runs something else than the pool."""
    service.canary = EngineConfig(max_num_batched_tokens=8).knobs()
    _work(service)
    assert service.trials[0].kind == "default" and service.trials[0].knobs == BAD


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("service", [{"space": {"num_speculative_tokens": {"choices": [0, 2]}}}], indirect=True)
def test_not_better_is_an_answer(service: StudyService) -> None:
    service.engine.prefill = lambda e, _: 0.03 if e.knobs["num_speculative_tokens"] else 0.01
    _work(service)
    assert service.study.result is not None and service.study.result.verdict is StudyVerdict.NOT_BETTER
    assert service.rollouts == [] and "Keep what runs now" in service.study.result.summary
    chance = service.study.result.random_search
    assert chance is not None and chance.own is None, "every report tells it"


@pytest.mark.usefixtures("at_once")
def test_a_refused_configuration_is_a_failed_trial(service: StudyService) -> None:
    service.refuse = {"max_num_batched_tokens": 512}
    _work(service)
    failed = [trial for trial in service.trials if trial.state == "failed"]
    assert len(failed) == 1 and "no such kernel" in failed[0].error and not failed[0].feasible
    assert service.study.result is not None and service.study.result.winner is not None
    assert service.study.result.winner["max_num_batched_tokens"] == 128


def test_a_trial_that_can_no_longer_win_is_not_replayed_to_its_end(
    service: StudyService, monkeypatch: pytest.MonkeyPatch
) -> None:
    say, said = Lease.say, list[str]()

    def noted(lease: Lease, **news: Any) -> None:
        said.append(news.get("progress", ""))
        say(lease, **news)

    monkeypatch.setattr(Lease, "say", noted)
    usual = service.engine.prefill
    service.engine.prefill = lambda e, length: 60.0 if e.knobs["max_num_batched_tokens"] == 512 else usual(e, length)
    _work(service)
    early = next(trial for trial in service.trials if trial.knobs["max_num_batched_tokens"] == 512)
    assert early.state == "complete" and early.kind == "search" and early.ended_early
    # Replays take real time, and a machine that stalls can end another, too; not the one that wins.
    assert any(not one.ended_early for one in service.trials if one.knobs["max_num_batched_tokens"] == 128)
    assert "requests: ttft p95 could no longer come to" in early.ended_early
    assert early.measurement is not None and early.objective_s is not None
    default_s = service.trials[0].objective_s
    assert default_s is not None and early.objective_s > 1.5 * default_s
    # What is said next takes its place, before a heartbeat has told it, maybe.
    assert any("could no longer come to" in text for text in said)
    assert service.study.result is not None and service.study.result.winner is not None
    assert service.study.result.winner["max_num_batched_tokens"] == 128


def test_without_a_trial_node_the_study_fails_with_the_mend(service: StudyService) -> None:
    service.with_trial_node = False
    _work(service)
    assert service.study.state is StudyState.FAILED
    assert "no trial node for pool p" in service.study.error and "role trial" in service.study.error


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "service",
    [
        {
            "objective": "goodput",
            "constraints": [Limit(metric="ttft", q=0.95, limit_s=0.05)],
            "load": 2,
            "trial_requests": 40,
        }
    ],
    indirect=True,
)
def test_what_serves_more_good_requests_at_twice_the_load_is_found(service: StudyService) -> None:
    _work(service)
    result = service.study.result
    assert result is not None and result.verdict is StudyVerdict.BETTER, service.study.error
    assert result.summary.startswith("goodput rises by")
    default, *others = [trial.measurement for trial in service.trials if trial.measurement is not None]
    best = max(others, key=lambda one: one.good or 0)
    assert default.good is not None and best.good == best.requests > default.good
    assert service.trials[0].objective_s == pytest.approx((default.span_s or 0) / default.good)
    assert service.trials[0].feasible, "what makes a request good is no limit of a quantile"
    told = service.study.workload_summary
    assert told["load"] == 2 and told["slice"]["rate_per_s"] > 1.5 * told["share"]["rate_per_s"]
    (proposed,) = service.rollouts
    assert (proposed["metrics"], proposed["levels"]) == (["ttft"], {"ttft": [0.95]})
    assert proposed["objective"] is None and proposed["limits"][0]["limit_s"] == 0.05


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "service", [{"objective": "goodput", "constraints": [Limit(metric="ttft", q=0.95, limit_s=1e-6)]}], indirect=True
)
def test_where_nothing_keeps_the_limits_nothing_is_raced(service: StudyService) -> None:
    """All configurations serve as many good requests, none: pairs of two of them would say so for as long."""
    _work(service)
    result = service.study.result
    assert result is not None and result.verdict is StudyVerdict.NOT_BETTER, service.study.error
    assert result.summary.startswith("Keep what runs now: no request of any trial kept ttft p95 <= 1 µs")
    assert "finalist" not in {trial.kind for trial in service.trials}


@pytest.fixture
def queued(service: StudyService, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replays end at once; requests queue for a server that works on one prompt after another. The rates at which they
    came, replay by replay."""
    engine, rates = service.engine, []

    def run(_: TrialNode, workload: Workload, texts: Sequence[Sequence[int]], **how: Any) -> ReplayResult:
        timings, free = [], 0.0
        for index, (request, text) in enumerate(zip(workload.requests, texts, strict=True)):
            arrival = request.timestamp / 1000
            free = max(free, arrival) + engine.prefill(engine, len(text))
            timing = RequestTiming(index, arrival, ttft_s=free - arrival, e2e_s=free - arrival, output_tokens=1)
            timings.append(timing)
        if how.get("bounds"):
            rates.append(len(timings) / max(timings[-1].scheduled_s, 1e-9))
        return ReplayResult(timings, 0.7, 0.0, samples=pool_samples(timings))

    monkeypatch.setattr(TrialNode, "run", run)
    for bound in ("SHORTEST_SPAN_S", "LONGEST_SPAN_S"):
        monkeypatch.setattr(f"tuner.study.time_plan.{bound}", 4.0)
    return rates


@pytest.mark.parametrize(
    "service",
    [
        {
            "objective": "max_load",
            "constraints": [Limit(metric="ttft", q=0.95, limit_s=0.5)],
            "trial_requests": 40,
            "load_replays": 6,
        }
    ],
    indirect=True,
)
def test_what_carries_a_larger_load_is_found_and_both_loads_are_told(
    service: StudyService, queued: list[float]
) -> None:
    _work(service)
    result = service.study.result
    assert result is not None and result.verdict is StudyVerdict.BETTER, (service.study.error, result)
    default, winner = result.default_carries, result.winner_carries
    assert default is not None and winner is not None and winner.load > 2 * default.load
    assert result.summary.startswith("the largest load rises by")
    carries = "at least " if winner.at_least else ""
    assert f"it carries {carries}{winner.load:.3g} times the captured load (" in result.summary
    assert "within ttft p95 <= 500 ms, the default " in result.summary
    told = {trial.number: trial.measurement.carried for trial in service.trials if trial.measurement is not None}
    for trial in service.trials:
        carried = told[trial.number]
        assert carried is not None
        assert len(carried.replays) <= 6 and trial.objective_s == carried.request_s
        assert carried.low <= carried.load and trial.violations.keys() == {"errors"}
    assert len(queued) == sum(len(carried.replays) for carried in told.values() if carried is not None)
    first = [told[trial.number] for trial in service.trials if trial.order.pair == 0]
    starts = {carried.replays[0].load for carried in first if carried is not None}
    assert len(first) == 2 and len(starts) == 1 and starts != {1.0}, "both arms of a pair begin at the same load"
    (proposed,) = service.rollouts
    assert (proposed["objective"], proposed["levels"]) == (None, {"ttft": [0.95]})


@pytest.mark.parametrize(
    "service",
    [
        {
            "objective": "cost",
            "also": [{"objective": "ttft", "objective_q": 0.95}, {"objective": "e2e", "objective_q": 0.5}],
            "constraints": [Limit(metric="ttft", q=0.95, limit_s=0.5)],
            "trial_requests": 40,
            "load_replays": 6,
            "node_hour_price": 2.0,
            "currency": "EUR",
        }
    ],
    indirect=True,
)
def test_several_objectives_end_in_a_front_a_winner_and_what_tokens_cost(
    service: StudyService, queued: list[float]
) -> None:
    _work(service)
    result = service.study.result
    assert result is not None and result.verdict is StudyVerdict.BETTER, (service.study.error, result)
    assert queued
    for trial in service.trials:
        assert trial.measurement is not None and trial.measurement.carried is not None
        carried = trial.measurement.carried
        assert carried.replays[0].load == 1.0, "what else is an objective is measured at the slice's own load"
        assert trial.objective_s == carried.cost_s
        assert trial.also_s == {name: trial.measurement.quantiles[name] for name in ("ttft:0.95", "e2e:0.5")}
    pairs = [trial for trial in service.trials if trial.order.pair == 0]
    seconds = {trial.measurement.carried.replays[1].load for trial in pairs if trial.measurement.carried}
    assert len(pairs) == 2 and len(seconds) == 1 and seconds != {1.0}
    assert [one.name for one in result.also] == ["ttft:0.95", "e2e:0.5"] and all(one.held for one in result.also)
    default = service.trials[0].knobs
    assert result.front and default not in [member.knobs for member in result.front]
    assert result.winner in [member.knobs for member in result.front]
    assert all(list(member.values) == ["cost", "ttft:0.95", "e2e:0.5"] for member in result.front)
    costs = result.costs
    assert costs is not None and costs.winner is not None and costs.tokens_per_day and costs.saved_node_h
    assert costs.winner.node_s < costs.default.node_s
    node_h = costs.tokens_per_day / 1000 * (costs.default.node_s - costs.winner.node_s) / 3600
    assert costs.saved_node_h == pytest.approx(node_h, rel=1e-2)
    assert result.summary.startswith("cost falls by") and "Ttft p95 falls by" in result.summary
    assert "EUR for a million" in result.summary and "node hours a day less" in result.summary


ASKS = """
import json, os, urllib.request
body = json.dumps({"model": os.environ["TAILWRIGHT_EVALUATION_MODEL"], "prompt": [1], "max_tokens": 1}).encode()
url = os.environ["TAILWRIGHT_EVALUATION_URL"] + "/v1/completions"
asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
print(json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked))["choices"][0]["text"])
"""
"""Scores what the engine says."""
OWN = Evaluations({"own": (sys.executable, "-c", ASKS)}, 60.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("service", [{"evaluation": "own", "evaluation_margin": 0.05}], indirect=True)
@pytest.mark.parametrize(
    ("says", "verdict", "told"),
    [
        ("0.58", StudyVerdict.BETTER, "Evaluation own scores 0.58, the default 0.6: 0.02 less, of 0.05 permitted."),
        (
            "0.5",
            StudyVerdict.NOT_BETTER,
            "its evaluation does not hold. Evaluation own scores 0.5, the default 0.6",
        ),
        ("done", StudyVerdict.NOT_BETTER, "Evaluation own has no score: of the winner: its last line wants"),
    ],
)
def test_a_winner_is_held_to_the_users_own_evaluation(
    service: StudyService, says: str, verdict: StudyVerdict, told: str
) -> None:
    engine = service.engine
    engine.first_token = lambda _: "0.6" if engine.knobs["max_num_batched_tokens"] == 24 else says
    _work(service, OWN)
    result = service.study.result
    assert result is not None and result.evaluation is not None, service.study.error
    assert result.verdict is verdict and told in result.summary
    assert (result.evaluation.name, result.evaluation.held) == ("own", verdict is StudyVerdict.BETTER)
    assert len(service.rollouts) == (1 if verdict is StudyVerdict.BETTER else 0)
    if says != "done":
        assert result.evaluation.default is not None and result.evaluation.default.score == 0.6
        assert result.evaluation.winner is not None and result.evaluation.winner.score == float(says)
    assert any(beat.progress == "evaluating the winner by own" for beat in service.beats)


@pytest.mark.parametrize("service", [{"workload": "profile:chat@12", "load": 2.0}], indirect=True)
@pytest.mark.usefixtures("at_once")
def test_a_profile_is_replayed_in_place_of_what_the_pool_served(service: StudyService) -> None:
    service.workload = service.workload.model_copy(update={"requests": []})
    _work(service)
    assert service.study.result is not None, service.study.error
    told = service.study.workload_summary
    assert told["captured"]["requests"] == 3600 and told["load"] == 2.0
    assert told["captured"]["rate_per_s"] == pytest.approx(12, rel=0.2)
    with Client(service.url, service.token) as client:
        mix = unpacked_mix(client.study_plan(1).mix)
    assert mix is not None and len(mix) == 2000, "by which a drift is told later"
    assert "on traffic of profile chat at 12 requests a second" in service.study.result.summary


@pytest.mark.parametrize("service", [{"workload": "friday"}], indirect=True)
@pytest.mark.usefixtures("at_once")
def test_a_kept_workload_is_replayed_and_one_that_is_gone_ends_the_study(service: StudyService) -> None:
    _work(service)
    assert (service.study.state, service.study.error) == (StudyState.FAILED, "no workload 'friday'")
    with Client(service.url, service.token) as client:
        client.add_workload(WorkloadCreate(name="friday", traffic=packed([OTHER])))
    again = service.create(_spec(workload="friday"))
    _work(service)
    told = service.read(again).workload_summary
    assert told["captured"] == describe(OTHER) and told["nodes"] == 2


@pytest.mark.parametrize("service", [{"evaluation": "mmlu"}], indirect=True)
def test_a_study_whose_evaluation_a_worker_does_not_have_is_left_to_one_that_has_it(service: StudyService) -> None:
    with Client(service.url, service.token) as client:
        for evaluations in (None, OWN):
            assert not Worker(client, "w", evaluations=evaluations).once()
        assert (service.study.state, service.study.error) == (StudyState.QUEUED, "")
        assert service.study.progress.startswith("waits for a worker that has the evaluation mmlu; ")
        claimed = client.claim_study("able", ["own", "mmlu"])
    assert claimed is not None and (service.study.state, service.study.worker) == (StudyState.RUNNING, "able")


@pytest.mark.parametrize("service", [{"evaluation": "mmlu"}], indirect=True)
def test_one_that_it_was_given_all_the_same_ends_before_anything_runs(service: StudyService) -> None:
    with Client(service.url, service.token) as client:
        claimed = client.claim_study("w")
        assert claimed is not None
        hooks = Hooks("w", progress=lambda _: None, started=lambda _, __: None, evaluations=OWN)
        with pytest.raises(BadRequest) as refused:
            StudyRun(client, claimed, hooks).run()
    assert refused.value.message == (
        "evaluation: worker w has no evaluation 'mmlu', it has own; start it with --evaluation mmlu=COMMAND, or leave "
        "the field out"
    )
    assert service.trials == [] and service.applied == []


def test_a_cancelled_study_stops_at_once_and_the_loop_lives_on(service: StudyService) -> None:
    with Client(service.url, service.token) as client:
        worker = Worker(client, "w", heartbeat_s=0.2)
        thread = threading.Thread(target=worker.loop, args=(0.1,), daemon=True)
        thread.start()
        wait_for("a trial is reported", lambda: service.trials)
        service.cancel()
        wait_for("the worker asks for another study", lambda: service.idle_claims)
        assert len(service.trials) < 3 and service.rollouts == [] and service.applied[-1] == BAD
        assert thread.is_alive()
        worker.stop.set()
        thread.join(5)
        assert not thread.is_alive()


def _node(name: str, **other: Any) -> NodeView:
    wanted = {
        "node": name, "pool": "p", "role": "trial", "backend": "embedded", "model": "m", "connected": True,
        "healthy": True, "engine_url": "http://e",
    }  # fmt: skip
    return NodeView.model_validate(wanted | other)


def test_choice_of_trial_nodes() -> None:
    serving = _node("s", role="serving")
    nodes = [serving, _node("a", pool="other"), _node("b"), _node("c", pool="p-trial"), _node("d", pool="p-trial")]
    assert [node.node for node in find_trial_nodes(nodes, "p")] == ["c", "d", "b", "a"]
    assert find_trial_nodes(nodes[:3], "p")[0].node == "b"
    wrongs = {"model n": {"model": "n"}, "not connected": {"connected": False}, "not healthy": {"healthy": False}}
    for told, wrong in wrongs.items():
        with pytest.raises(NotFound, match=told):
            find_trial_nodes([serving, _node("x", **wrong)], "p")
