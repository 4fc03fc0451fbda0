"""Random kill -9 of the service and of agents under load, and power cuts: nothing acknowledged lost, nothing doubled.

The service is a real one, simulated agents send numbered reports without pause, and two real agents follow an engine
that knows what it has told them. A kill comes at a random moment. After some of them the files of the dead process are
set to what a disk might hold had the power gone (benchmarks/power_loss). After each, what was acknowledged is looked
for.
"""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.power_loss.disk import Cut, Loss
from benchmarks.power_loss.recording import Recording
from benchmarks.telemetry_measures.service import Service
from benchmarks.telemetry_measures.session import Session, verdict
from benchmarks.telemetry_measures.under_kills.kill_check import Findings, check_agents, check_reports
from benchmarks.telemetry_measures.under_kills.kill_engine import KillEngine
from benchmarks.telemetry_measures.under_kills.kill_reports import NODES, SPACING, KillReports
from benchmarks.telemetry_measures.under_kills.kill_senders import KillSenders
from benchmarks.telemetry_measures.under_kills.real_agent import RealAgent, stand_in
from controlplane.contract.metrics import WINDOW_S
from controlplane.telemetry.values.timespan import start_of

GOAL_KILLS, QUICK_KILLS = 200, 8
_AGE_S = 5 * 3600
"""How old the first report's window is: the numbers run towards the present as the load goes on."""
_REPORTS_PER_S, _REQUESTS_PER_S = 150.0, 20.0
_MEAN_UP_S, _LEAST_UP_S, _MOST_UP_S = 2.5, 0.05, 12.0
_SETTLE_LIMIT_S = 120.0
_AGENTS = ("real-0", "real-1")
_VICTIMS = (("service", 5), ("service, power", 5), ("simulated agents", 2), ("real agent", 2), ("real agent, power", 2))
"""Each with its weight."""


@dataclass
class Followed:
    """An engine, and the agent that follows it."""

    engine: KillEngine
    agent: RealAgent


@dataclass
class Tally:
    """What a run did and found."""

    kills: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    uncovered: int = 0
    taken: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    checks: int = 0

    def add(self, when: str, findings: Findings) -> None:
        self.checks += findings.checked
        for mine, found in ((self.lost, findings.lost), (self.doubled, findings.doubled), (self.odd, findings.odd)):
            mine.extend(f"{when}: {one}" for one in found)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.odd)


def measure(session: Session) -> None:
    heading("Kill -9 and power cuts")
    kills = session.settings.kills or (QUICK_KILLS if session.settings.quick else GOAL_KILLS)
    run = KillRun(session, random.Random(session.settings.seed))
    began = time.monotonic()
    try:
        for number in range(kills):
            run.one(number)
            if (number + 1) % 10 == 0 or not run.tally.clean:
                progress(f"kills: {number + 1} of {kills}, {len(run.senders.acknowledged)} reports, {run.found}")
        run.finish()
    finally:
        run.close()
    _print(session, run, kills, time.monotonic() - began)


class KillRun:
    def __init__(self, session: Session, chosen: random.Random) -> None:
        self._session, self._chosen = session, chosen
        self.tally = Tally()
        # A first start and a clean end, so that everything recorded begins with a whole database on the disk.
        self._service = Service(session.nursery, "kills", {session.service_core})
        self._service.without_rules()
        self._service.stop()
        self._scratch = session.nursery.folder / "kills-disk"
        self._recording = Recording(self._service.data, self._scratch)
        self._start_service()
        first = int((time.time() - _AGE_S) // (SPACING * WINDOW_S)) * SPACING
        self.reports = KillReports(session.settings.seed, first)
        self.senders = KillSenders(self._service.url, self._service.token, self.reports, _REPORTS_PER_S)
        self.agents = [self._new_agent(name) for name in _AGENTS]
        self._checked_from = 0

    @property
    def found(self) -> str:
        tally = self.tally
        return f"{len(tally.lost)} lost, {len(tally.doubled)} doubled, {len(tally.odd)} odd"

    def one(self, number: int) -> None:
        """Load, one kill at a random moment, recovery, and a look at everything since the kill before."""
        names, weights = [name for name, _ in _VICTIMS], [weight for _, weight in _VICTIMS]
        victim = self._chosen.choices(names, weights)[0]
        before = self.senders.acknowledged.copy()
        self.senders.start()
        time.sleep(min(_MOST_UP_S, max(_LEAST_UP_S, self._chosen.expovariate(1 / _MEAN_UP_S))))
        power = victim.endswith("power")
        if victim.startswith("service"):
            self._kill_service(power)
        elif victim == "simulated agents":
            self.senders.forget()
        else:
            self._kill_agent(self._chosen.choice(self.agents).agent, power)
        self.tally.kills[victim] += 1
        self.senders.pause()
        known = self.senders.acknowledged.copy()
        since = max(0, min(known - before, default=self._checked_from) - NODES)
        self.tally.add(
            f"kill {number + 1} ({victim})",
            check_reports(self._service.client, self.reports, known, self.senders.sent, since),
        )

    def finish(self) -> None:
        """Everything that was begun is sent to its end; then every report and every window is looked at."""
        if not self.senders.finish(_SETTLE_LIMIT_S):
            missing = self.senders.sent - self.senders.acknowledged
            raise WorkerFailed(f"{len(missing)} reports are not acknowledged: {dict(self.senders.statuses)}")
        for agent in self.agents:
            agent.engine.quiet()
        until = time.monotonic() + _SETTLE_LIMIT_S
        while (found := self._check_agents(complete=True)).lost and time.monotonic() < until:
            time.sleep(1.0)
        self.tally.add("real agents at the end", found)
        senders = self.senders
        self.tally.add(
            "reports at the end", check_reports(self._service.client, self.reports, senders.acknowledged, senders.sent)
        )

    def close(self) -> None:
        self.senders.close()
        for agent in self.agents:
            agent.agent.stop()
            agent.engine.close()
        self._service.close()

    # -- the service -------------------------------------------------------------------------------------------------

    def _start_service(self) -> None:
        self._service.start(self._recording.environment())

    def _kill_service(self, power: bool) -> None:
        self._service.child.kill()
        self.senders.pause()
        if power:
            self._note(how := self._chosen.choice(list(Cut)), self._recording.cut(self._chosen, how))
        else:
            self._recording.settle()
        self._start_service()

    def _note(self, how: Cut, loss: Loss) -> None:
        self.tally.cuts[how.value] += 1
        self.tally.uncovered += loss.uncovered
        self.tally.taken += loss.taken

    # -- real agents -------------------------------------------------------------------------------------------------

    def _new_agent(self, name: str) -> Followed:
        engine = KillEngine(_REQUESTS_PER_S)
        agent = RealAgent(
            self._session.nursery,
            self._service,
            name,
            pool="real",
            engine=stand_in(engine.url, self._service.data / "enrolment-token"),
            core=self._session.load_core,
        )
        return Followed(engine, agent)

    def _kill_agent(self, agent: RealAgent, power: bool) -> None:
        if power:
            self._note(how := self._chosen.choice(list(Cut)), agent.power_cut(self._chosen, how))
        else:
            agent.kill()
        agent.start()

    def _check_agents(self, *, complete: bool) -> Findings:
        told = {one.agent.name: dict(one.engine.told) for one in self.agents}
        try:
            return check_agents(self._service.client, told, complete=complete)
        except httpx.HTTPError as error:
            raise WorkerFailed(f"the service does not answer: {error}") from error


def _print(session: Session, run: KillRun, kills: int, seconds: float) -> None:
    tally, senders = run.tally, run.senders
    requests = sum(agent.engine.requests for agent in run.agents)
    rows = [
        ["kills", ", ".join(f"{name}: {count}" for name, count in sorted(tally.kills.items()))],
        ["power cuts by what the disk kept of writes not yet synced", _counts(tally.cuts)],
        ["operations that no fsync covered, and those that a cut took", f"{tally.uncovered:,}, {tally.taken:,}"],
        ["reports acknowledged (each its own node and window)", f"{len(senders.acknowledged):,}"],
        ["requests that the real agents' engines told of", f"{requests:,}"],
        ["looks at a report or a window", f"{tally.checks:,}"],
        ["acknowledged and lost", f"**{len(tally.lost)}**"],
        ["counted twice", f"**{len(tally.doubled)}**"],
        ["neither whole nor absent, or never sent", f"**{len(tally.odd)}**"],
        ["refused", f"{len(senders.refused)}"],
    ]
    newest = start_of(run.reports.window(max(senders.sent, default=0)))
    note(
        f"{kills} kills in {seconds:.0f} s, seed {session.settings.seed}; {_REPORTS_PER_S:g} reports a second from "
        f"{NODES} nodes (packed, OTLP, OTLP under our header; newest window {newest:%H:%M:%S} UTC), two real agents at "
        f"{_REQUESTS_PER_S:g} requests a second. `power`: the dead process's files are put back to what a disk may "
        "hold."
    )
    table(["", ""], rows)
    for found in (tally.lost + tally.doubled + tally.odd + senders.refused)[:20]:
        note(f"- {found}")
    reached = tally.clean and not senders.refused
    note(f"0 acknowledged lost, 0 doubled: **{verdict(reached)}**.")
    if not reached:
        session.failures.append(f"kills: {run.found}, {len(senders.refused)} refused")


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items())) or "none"
