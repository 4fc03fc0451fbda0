"""Kills at random under load: kill -9, SIGSTOP for seconds, power cuts; of each process and of the database.

What must hold afterwards: nothing acknowledged is lost or counted twice (each report has a node and a window of its
own, engines know what they told), each alarm is heard, no node has run what nobody judged, rollouts and studies end, no
proxied request is served twice.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos_measures.kill_world import Kind, World
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.power_loss.disk import Cut, Loss
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import Postgresql
from benchmarks.telemetry_measures.under_kills.kill_check import Findings, check_agents, check_reports
from benchmarks.telemetry_measures.under_kills.kill_reports import NODES
from benchmarks.telemetry_measures.under_kills.real_agent import RealAgent
from benchmarks.vllm_measures.processes import Nursery

_MEAN_UP_S, _LEAST_UP_S, _MOST_UP_S = 2.5, 0.05, 12.0
_LEAST_HELD_S, _MOST_HELD_S = 0.5, 6.0
_SETTLE_LIMIT_S = 180.0
_VICTIMS = {
    "service": 5,
    "service held": 2,
    "agent": 2,
    "agent, power": 2,
    "agent held": 1,
    "engine": 2,
    "engine held": 1,
    "tuner": 2,
    "tuner held": 1,
    "proxy": 2,
    "proxy held": 1,
    "senders": 1,
}
"""Each with its weight."""
_OF_KIND: dict[Kind, dict[str, int]] = {
    "sqlite": {"service, power": 4},
    "postgresql": {"database": 3, "database held": 2},
}


@dataclass
class Outcome:
    """What one run did and found. `findings`: each in a sentence, by what was promised."""

    kind: Kind
    seed: int
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    uncovered: int = 0
    taken: int = 0
    looks: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        return not any(self.findings.values())

    def add(self, promise: str, found: list[str]) -> None:
        self.findings.setdefault(promise, []).extend(found)
        for one in found:
            progress(f"FOUND: {promise}: {one}")

    def look(self, when: str, findings: Findings) -> None:
        self.looks += findings.checked
        for promise, found in (("lost", findings.lost), ("doubled", findings.doubled), ("odd", findings.odd)):
            self.add(promise, [f"{when}: {one}" for one in found])


def run(nursery: Nursery, kind: Kind, kills: int, seed: int) -> Outcome:
    """Raises `WorkerFailed` when something does not come back by itself."""
    if kind == "sqlite":
        return _run(nursery, kind, kills, seed, None)
    postgresql = Postgresql(os.sched_getaffinity(0))
    try:
        return _run(nursery, kind, kills, seed, postgresql)
    finally:
        postgresql.close()


def _run(nursery: Nursery, kind: Kind, kills: int, seed: int, postgresql: Postgresql | None) -> Outcome:
    outcome, chosen = Outcome(kind, seed), random.Random(f"{seed} {kind}")
    world = World(nursery, kind, seed, postgresql)
    began = time.monotonic()
    try:
        one_after_another = _Kills(world, outcome, chosen)
        for number in range(kills):
            one_after_another.one(number)
            if (number + 1) % 10 == 0:
                found = sum(map(len, outcome.findings.values()))
                progress(f"{kind}: {number + 1} of {kills} kills, {world.alarms.spells} alarms, {found} found")
        _finish(world, outcome)
    finally:
        outcome.seconds = time.monotonic() - began
        world.close()
    return outcome


class _Kills:
    """One kill at a time, each followed by a look at every report since the one before."""

    def __init__(self, world: World, outcome: Outcome, chosen: random.Random) -> None:
        self._world, self._outcome, self._chosen = world, outcome, chosen
        weights = {**_VICTIMS, **_OF_KIND[world.kind]}
        self._names, self._weights = list(weights), list(weights.values())

    def one(self, number: int) -> None:
        world, senders = self._world, self._world.senders
        victim = self._chosen.choices(self._names, self._weights)[0]
        before = senders.acknowledged.copy()
        senders.start()
        time.sleep(min(_MOST_UP_S, max(_LEAST_UP_S, self._chosen.expovariate(1 / _MEAN_UP_S))))
        self._strike(victim)
        self._outcome.kills[victim] += 1
        senders.pause()
        world.await_ready()
        known = senders.acknowledged.copy()
        since = max(0, min(known - before, default=0) - NODES)
        found = check_reports(world.service.client, world.reports, known, senders.sent, since)
        self._outcome.look(f"kill {number + 1} ({victim})", found)

    def _strike(self, victim: str) -> None:
        name, _, how = victim.partition(" ")
        name = name.rstrip(",")
        if how == "held":
            self._hold(name)
        else:
            strikes: dict[str, Callable[[bool], None]] = {
                "service": self._service,
                "agent": self._agent,
                "database": lambda _: self._database(),
                "senders": lambda _: self._world.senders.forget(),
            }
            for one in ("engine", "tuner", "proxy"):
                strikes[one] = lambda _: self._restarted(name)
            strikes[name](how == "power")

    def _hold(self, name: str) -> None:
        """SIGSTOP for some seconds; what it serves goes on waiting."""
        world = self._world
        seconds = self._chosen.uniform(_LEAST_HELD_S, _MOST_HELD_S)
        if name == "database":
            assert world.postgresql is not None
            world.postgresql.signal(signal.SIGSTOP)
            time.sleep(seconds)
            world.postgresql.signal(signal.SIGCONT)
            return
        child = {
            "service": world.service.child,
            "engine": world.engine.child,
            "tuner": world.tuner.child,
            "proxy": world.proxy.child,
            "agent": self._one_agent().child,
        }[name]
        child.hold()
        time.sleep(seconds)
        child.resume()

    def _service(self, power: bool) -> None:
        world = self._world
        if power:
            self._note(how := self._chosen.choice(list(Cut)), world.power_cut(self._chosen, how))
        else:
            world.kill_service()
        world.senders.pause()
        world.start_service()

    def _agent(self, power: bool) -> None:
        agent = self._one_agent()
        if power:
            self._note(how := self._chosen.choice(list(Cut)), agent.power_cut(self._chosen, how))
        else:
            agent.kill()
        agent.start()

    def _database(self) -> None:
        assert self._world.postgresql is not None
        self._world.postgresql.kill()
        self._world.postgresql.start()

    def _restarted(self, name: str) -> None:
        one = {"engine": self._world.engine, "tuner": self._world.tuner, "proxy": self._world.proxy}[name]
        one.child.kill()
        one.again()

    def _one_agent(self) -> RealAgent:
        return self._chosen.choice(self._world.agents)

    def _note(self, how: Cut, loss: Loss) -> None:
        self._outcome.cuts[how.value] += 1
        self._outcome.uncovered += loss.uncovered
        self._outcome.taken += loss.taken


def _finish(world: World, outcome: Outcome) -> None:
    """All that is under way comes to its end; then everything is held against what the generators know."""
    client, senders = world.service.client, world.senders
    world.settle()
    if not senders.finish(_SETTLE_LIMIT_S):
        missing = senders.sent - senders.acknowledged
        raise WorkerFailed(f"{len(missing)} reports are not acknowledged: {dict(senders.statuses)}")
    for engine in world.engines.values():
        engine.quiet()

    def told() -> Findings:
        windows = {name: dict(engine.told) for name, engine in world.engines.items()}
        return check_agents(client, windows, complete=True)

    until = time.monotonic() + _SETTLE_LIMIT_S
    while (found := told()).lost and time.monotonic() < until:
        time.sleep(1.0)
    outcome.look("agents at the end", found)
    outcome.look("reports at the end", check_reports(client, world.reports, senders.acknowledged, senders.sent))
    outcome.add("refused", senders.refused)
    outcome.add("alarms lost", world.alarms.lost + world.alarms.check(client.alerts()))
    outcome.add("run without a judgement", world.changes.check(world.engines))
    outcome.add("rollouts or studies that did not end", world.changes.stuck + world.studies.stuck)
    outcome.add("studies", world.studies.check())
    outcome.add("proxied twice or wrongly", world.proxied.check())
    pool = [rollout for rollout in client.rollouts() if rollout.verdict is not None]
    outcome.figures = {
        "reports acknowledged": len(senders.acknowledged),
        "requests that engines told of": sum(engine.requests for engine in world.engines.values()),
        "alarms": world.alarms.spells,
        "deliveries repeated": sum(times - 1 for times in world.alarms.heard.deliveries.values()),
        **{f"rollouts {verdict}": times for verdict, times in Counter(str(one.verdict) for one in pool).items()},
        **{f"studies {state}": times for state, times in world.studies.ended.items()},
        "proxied requests answered": world.proxied.answered,
        "proxied requests broken": world.proxied.broken,
    }


def tell(outcome: Outcome) -> None:
    heading(f"Kills, {outcome.kind}")
    note(f"{outcome.kills.total()} kills in {outcome.seconds:.0f} s, seed {outcome.seed}.")
    rows = [
        ["kills", ", ".join(f"{name}: {count}" for name, count in sorted(outcome.kills.items()))],
        [
            "power cuts by what the disk kept",
            ", ".join(f"{how}: {n}" for how, n in sorted(outcome.cuts.items())) or "-",
        ],
        ["operations that no fsync covered, and those that a cut took", f"{outcome.uncovered:,}, {outcome.taken:,}"],
        ["looks at a report or a window", f"{outcome.looks:,}"],
        *([name, f"{value:,.0f}"] for name, value in outcome.figures.items()),
        *([f"**{promise}**", f"**{len(found)}**"] for promise, found in outcome.findings.items()),
    ]
    table(["", ""], rows)
    for promise, found in outcome.findings.items():
        for one in found[:20]:
            note(f"- {promise}: {one}")


def save(outcomes: list[Outcome], path: Path) -> None:
    found = [
        {"kind": one.kind, "seed": one.seed, "seconds": one.seconds, "kills": dict(one.kills), "cuts": dict(one.cuts)}
        | {"figures": one.figures, "findings": one.findings}
        for one in outcomes
    ]
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
