"""The short form of benchmarks.agents_at_scale: eight agents are idle, get a decision, come back after a kill."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.agents_at_scale import decision_times, idle_agents, reconnect_storm
from benchmarks.agents_at_scale.agent_crowd import Crowd, TooFewDescriptors, allow_descriptors
from benchmarks.agents_at_scale.at_scale import Plan, run
from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.processes import Nursery
from controlplane.contract.bodies.rollouts import RolloutPhase

AGENTS = 8


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_agent_gets_the_decision_and_none_is_left_out_after_a_kill(
    nursery: Nursery, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(nursery, "service", os.sched_getaffinity(0))
    try:
        with Crowd(service, AGENTS, seed=1) as crowd:
            idle = idle_agents.measure(service, crowd, seconds=1.0, settle_s=0.0)
            (decided,) = decision_times.measure(service, crowd, repeats=1)
            (storm,) = reconnect_storm.measure(service, crowd, repeats=1)
            revisions = {agent.engine.current.revision for agent in crowd.agents}
    finally:
        service.close()
    assert (decided.missing, decided.untold, decided.phase) == (0, 0, RolloutPhase.PROMOTED)
    assert len(decided.got_s) == len(decided.in_force_s) == AGENTS and revisions == {2}
    steps = zip(decided.got_s, decided.applied_s, decided.in_force_s, strict=True)
    assert all(0 < got < applied < known for got, applied, known in steps)
    assert (storm.left_out, storm.offline, len(storm.known_s)) == (0, 0, AGENTS)
    assert min(storm.known_s) > 0 and any("cannot be opened" in text for text in storm.told)
    assert sum(idle.told.values()) == AGENTS and set(idle.told) == {10.0}
    decision_times.tell([decided], AGENTS)
    idle_agents.tell(idle, AGENTS)
    reconnect_storm.tell([storm], AGENTS)
    assert capsys.readouterr().out.count("Goal:") == 3


def test_too_low_a_limit_of_open_files_is_said(monkeypatch: pytest.MonkeyPatch, nursery: Nursery) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(TooFewDescriptors, match=r"10,000 agents want 16,000 open files .* the limit is 256"):
        run(Plan(only=["idle"]), nursery)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16_000, 16_000))
    allow_descriptors(10_000)
