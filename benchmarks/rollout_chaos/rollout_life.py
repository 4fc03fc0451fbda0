"""One rollout's life in a fleet of real agents' control code, with the faults of its plan, looked at at each step."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from sqlmodel import Session, col, select

from benchmarks.rollout_chaos.held_tick import HeldTick
from benchmarks.rollout_chaos.leased_node import POOL, Cut, LeasedNode
from benchmarks.rollout_chaos.life_invariants import Entry, Invariants, Look, NodeSeen, RolloutSeen
from benchmarks.rollout_chaos.planned_faults import AWAY_S, DOWN_S, JUMPS_S, Fault, Kind, Plan
from benchmarks.rollout_chaos.scripted_service import LEASE_S, Exchanged, ScriptedService, first_window
from benchmarks.rollout_chaos.striking_database import Died, Move, Moved, StrikingDatabase, refused
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, RolloutCreate, RolloutPhase
from controlplane.contract.errors import TailwrightError
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.on_call.rollout_policies import FreezeCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp.session import CONFIG_LEFT
from controlplane.fleet.tables import NodeRow
from controlplane.ledger.inspection import verify
from controlplane.ledger.tables import LedgerRow
from controlplane.rollouts import steering, store
from controlplane.rollouts.approval import Hand
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.tables import RolloutRow

BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STEP_S = 5.0
HEARTBEAT_S = 10.0
TOLD_WITHIN_S = 6 * STEP_S
MOST_STEPS = 700
"""Of a whole life: all faults, a clock that was put back, each phase's time-out, and the way back of every node."""
SETTLING = 20
"""Turns of the event loop in which an agent does all that it has to; nothing in it waits for time."""
SPEC = {
    "pool": POOL,
    "canary_share": 0.25,
    "min_judge_s": 10.0,
    "max_judge_s": 30.0,
    "wave_judge_s": 25.0,
    "apply_timeout_s": 20.0,
}
ANN, BOB = Hand(1, None, names=("ann",)), Hand(2, None, names=("bob",))
MOST_RESUMES = 3


@dataclass
class Lived:
    """What became of a run: the rollouts' last phases, the transitions met, what is wrong. deaths: of the service;
    beats: heartbeats that it answered from memory.
    """

    plan: Plan
    phases: tuple[RolloutPhase, ...] = ()
    moves: list[Move] = field(default_factory=list)
    injected: list[Fault] = field(default_factory=list)
    looks: int = 0
    steps: int = 0
    deaths: int = 0
    cut_off: int = 0
    beats: int = 0
    leases_ended: int = 0
    found: list[str] = field(default_factory=list)


class RolloutLife:
    """`run` lives it. url: of an empty database with the product's tables; folder: for the agents' states."""

    def __init__(self, plan: Plan, url: str, folder: Path, http: httpx.AsyncClient) -> None:
        self.plan, self.scenario, self.lived = plan, plan.scenario, Lived(plan)
        self._url, self._folder, self._http = url, folder, http
        self._chance: random.Random = plan.chance
        pushed = any(fault.kind in (Kind.AMIDST, Kind.CUT_DURING) for fault in plan.faults)
        # Agents speak over HTTP, or each by a WebSocket.
        self._polls = self._chance.random() < 0.3 and not pushed
        self._at_s = self._offset_s = self._down_until_s = 0.0
        self._connections = 0
        self.nodes: dict[str, LeasedNode] = {}
        self._met: dict[Move, int] = {}
        self._deeds = list(self.scenario.deeds)
        self._proposed = self._began = False
        self._resumes = 0
        self._busy = False  # A fault is being injected: what it does is struck by no other.
        self._pushes_left: int | None = None
        self._to_cut: dict[Kind, tuple[str, ...]] = {}  # Of these nodes.
        self._closing: list[tuple[str, bool]] = []
        self._told: tuple[str, ...] = ()
        self._phase: RolloutPhase | None = None
        self._pool_revision: int | None = None
        self._settled_steps = 0
        self._held: HeldTick | None = None
        self._new = 0
        self._invariants = Invariants(LEASE_S + STEP_S, TOLD_WITHIN_S)
        self._entries_seen = 0
        self._looking = Database(url)
        self._open()

    async def run(self) -> Lived:
        try:
            await self._prepare()
            while not self._is_over() and self.lived.steps < MOST_STEPS:
                await self._step()
            self._judge_the_end()
        finally:
            self._let_go()
            for node in self.nodes.values():
                node.kill()
            await self._settle()
            self._database.close()
            self._second_database.close()
            self._looking.close()
        return self.lived

    # -- the service -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        says = self.scenario.says
        self._database = StrikingDatabase(self._url, self)
        self._service: ScriptedService | None = ScriptedService(self._database, says, self._wall, lambda: self._at_s)
        # Another replica over the same database; it holds no agents.
        self._second_database = StrikingDatabase(self._url, _Onlooker(self))
        self._second = ScriptedService(self._second_database, says, self._wall, lambda: self._at_s)

    def _wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self._at_s + self._offset_s)

    def _dies(self) -> None:
        self.lived.deaths += 1
        self._let_go()
        self._database.close()
        self._second_database.close()
        self._service = None
        self._busy, self._pushes_left = False, None
        longer = self._chance.choice(DOWN_S[:3]) if self._chance.random() < 0.85 else DOWN_S[3]
        self._down_until_s = self._at_s + longer
        for node in self.nodes.values():
            node.linked = False

    def _does(self, deed: Callable[[ScriptedService], object]) -> bool:
        """Whether the service came to the end of it; a fault may end the service in it."""
        if self._service is None:
            return False
        try:
            deed(self._service)
        except Died:
            self._dies()
            return False
        except TailwrightError:
            return True  # It was refused: somebody was faster, or it has ended.
        except Exception:
            if self._busy:
                raise
            return False  # The database did not take it: it is asked again.
        return True

    # -- a step of time ----------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """A pool that has its first revision from what its nodes run, and the new one."""
        for place in range(self.scenario.nodes):
            self._add(f"n{place}")
        if self.scenario.silent_engine:
            self.nodes["n0"].engine.tells = False
        for _ in range(2):
            await self._agents()
        with self._looking.session() as session:
            wanted = RevisionCreate(knobs={"max_num_seqs": 64})
            self._new = fleet.create_revision(session, wanted, "ann", self._wall()).number
        self._look()

    def _add(self, name: str) -> LeasedNode:
        node = self.nodes[name] = LeasedNode(name, self._folder / name, self._http)
        node.start()
        return node

    async def _step(self) -> None:
        self.lived.steps += 1
        self._at_s += STEP_S
        for node in self.nodes.values():
            node.passes(STEP_S)
        if self._service is None and self._at_s >= self._down_until_s:
            self._open()
        self._hold_or_let_go()
        self._return_nodes()
        await self._settle()
        await self._people()
        self._close_connections()
        self._does(ScriptedService.look_for_silence)
        self._does(ScriptedService.tick)
        self._does(ScriptedService.look)
        await self._push()
        await self._agents()
        self._look()

    async def _settle(self) -> None:
        for _ in range(SETTLING):
            await asyncio.sleep(0)

    def _return_nodes(self) -> None:
        for node in self.nodes.values():
            cut = node.cut
            if cut is None:
                continue
            if node.dead and cut.starts_s is not None and self._at_s >= cut.starts_s:
                if cut.reboots:
                    node.reboot()
                node.start()
            if self._at_s >= cut.until_s and not node.dead:
                node.cut = None

    async def _push(self) -> None:
        """What the hub does: each connected agent whose configuration has changed is told."""
        for node in list(self.nodes.values()):
            if self._service is None or not node.linked or node.dead:
                continue
            content = self._service.push(node.name)
            if content is None:
                continue
            if self._pushes_left is not None:
                if self._pushes_left <= 0:
                    self._dies()
                    return
                self._pushes_left -= 1
            self._hears(node, content)
            if Kind.CUT_DURING in self._to_cut:
                await self._settle()
                self._to_cut.pop(Kind.CUT_DURING)
                self._cut(node)
        if self._pushes_left is not None and self._service is not None:
            self._dies()  # Fewer were to be told than it was to tell.
        self._cut_one_of(self._to_cut.pop(Kind.CUT_DURING, None))

    def _hears(self, node: LeasedNode, content: bytes) -> None:
        node.heard_s = self._at_s
        node.line.take(content)

    async def _agents(self) -> None:
        """Who has news, or a heartbeat due, says so, until all is said."""
        for _ in range(4):
            spoke = [await self._speak(node) for node in list(self.nodes.values())]
            await self._settle()
            if not any(spoke):
                break
        self._cut_one_of(self._to_cut.pop(Kind.CUT_AFTER, None))

    async def _speak(self, node: LeasedNode) -> bool:
        if self._service is None or node.dead or node.cut is not None:
            return False
        if not node.linked:
            self._connect(node)
        elif not node.line.has_news and self._at_s - node.spoke_s < HEARTBEAT_S:
            return False
        message = node.line.message()
        node.spoke_s = self._at_s
        node.sent.append(message)
        answered: list[Exchanged] = []
        if not self._does(lambda service: answered.append(service.exchange(node.name, message))):
            node.linked = False
            return False
        if answered[0].taken_in:
            node.heard_s = self._at_s
        self.lived.beats += answered[0].quiet
        node.line.take(answered[0].content)
        return True

    def _connect(self, node: LeasedNode) -> None:
        assert self._service is not None
        self._connections += 1
        self._service.connect(node.name, None if self._polls else f"socket {self._connections}")
        node.line.opened()
        node.linked = True

    def _cut_one_of(self, told: tuple[str, ...] | None) -> None:
        """One that was told, or any where nobody was; None: nobody is to be cut off."""
        if told is not None:
            here = [self.nodes[name] for name in told if name in self.nodes]
            self._cut(self._chance.choice(here or list(self.nodes.values())))

    def _cut(self, node: LeasedNode) -> None:
        """From now on it hears nothing; its agent may be killed, or its machine start again."""
        if node.cut is not None:
            return
        self.lived.cut_off += 1
        cut = Cut(self._at_s + self._chance.choice(AWAY_S))
        how, seen = self._chance.random(), self._chance.random() < 0.6
        if how < 0.5:
            cut.starts_s, cut.reboots = self._at_s + self._chance.choice((0.0, 20.0)), how < 0.15
            node.kill()
        node.cut, node.was_cut, node.linked = cut, True, False
        self._closing.append((node.name, seen))

    def _close_connections(self) -> None:
        """The service sees some connections close; of others it hears nothing more."""
        while self._closing and self._service is not None:
            name, seen = self._closing.pop()
            self._does(lambda service, name=name, seen=seen: service.disconnect(name, seen=seen))  # type: ignore[misc]

    # -- people ------------------------------------------------------------------------------------------------------

    async def _people(self) -> None:
        """One thing a step. Who got no answer looks first, and asks again."""
        rollout = self._newest()
        if self._service is None:
            return
        if rollout is None:
            self._does(self._propose)
            return
        number, phase = rollout.id or 0, RolloutPhase(rollout.phase)
        if self._deeds and self._deeds[0][0] is phase:
            deed = self._deeds[0][1]
            if deed in ("revert", "retry") and rollout.follows is not None:
                self._deeds.pop(0)  # It was done, and the answer was lost.
            elif await self._deed(deed, number):
                self._deeds.pop(0)
            if phase not in NOT_BEGUN or deed == "cancel":
                return
        if phase in NOT_BEGUN:
            self._does(lambda service: self._begin(service, number, phase))
        elif phase is RolloutPhase.PAUSED:
            resumes = self._resumes < MOST_RESUMES
            asked = steering.resume if resumes else steering.abort
            self._resumes += self._does(lambda service: self._steer(service, asked, number))

    def _propose(self, service: ScriptedService) -> None:
        said = {**SPEC, **self.scenario.spec, "revision": self._new, "start": self.scenario.starts_alone}
        with service.database.session() as session:
            spec = RolloutCreate.model_validate(said)
            store.create(session, spec, actor="ann", now=self._wall(), hand=ANN, validates=self.scenario.validates)

    def _begin(self, service: ScriptedService, number: int, phase: RolloutPhase) -> None:
        how = {"now": self._wall(), "validates": self.scenario.validates}
        with service.database.session() as session:
            if phase is RolloutPhase.AWAITING_APPROVAL:
                store.approve(session, number, hand=BOB, actor="bob", **how)  # type: ignore[arg-type]
            else:
                store.start(session, number, actor="ann", **how)  # type: ignore[arg-type]

    def _steer(self, service: ScriptedService, asked: Callable[..., object], number: int, **how: object) -> None:
        with service.database.session() as session:
            asked(session, number, actor="ann", now=self._wall(), **how)

    async def _deed(self, deed: str, number: int) -> bool:
        """Whether it is done."""
        if deed == "join":
            if "joined" not in self.nodes:
                self._add("joined")
            await self._agents()
            return True
        if deed == "refuse":
            for node in self.nodes.values():
                node.engine.refuses.add(self._new)
            return True
        if deed == "away":
            for node in self.nodes.values():
                if node.name in self._told and node.cut is None:
                    node.cut, node.was_cut, node.linked = Cut(self._at_s + LEASE_S + 50.0), True, False
                    self._closing.append((node.name, True))
            return True
        if deed == "freeze":
            return self._does(self._freeze)
        if deed == "lift":
            return self._does(self._lift)
        how = {"hand": ANN} if deed in ("revert", "retry") else {}
        return self._does(lambda service: self._steer(service, getattr(steering, deed), number, **how))

    def _freeze(self, service: ScriptedService) -> None:
        now = self._wall()
        with service.database.session() as session:
            wanted = FreezeCreate(pool=POOL, starts_at=now, ends_at=now + timedelta(days=1), reason="holiday")
            policies.freeze(session, wanted, actor="ann", now=now)

    def _lift(self, service: ScriptedService) -> None:
        with service.database.session() as session:
            for one in policies.freezes(session, before_id=None, limit=100):
                policies.lift(session, one.id, actor="ann", now=self._wall())

    # -- what is injected ----------------------------------------------------------------------------------------------

    def writing(self) -> None:
        if self._busy or (self._deeds and self._deeds[0][0] is self._phase):
            return  # What is to be done here comes first: the other replica would leave this phase before.
        for fault in self.plan.faults:
            if fault.kind is Kind.TWO and not fault.done and self._phase is fault.move[0]:
                self._apart(self._second.tick)  # Between what the first has read, and what it is about to write.

    def _hold_or_let_go(self) -> None:
        """The second replica stands still between what it has read in a phase and what it writes, steps later."""
        for fault in self.plan.faults:
            waits = fault.kind is Kind.HELD and not fault.done and self._phase is fault.move[0]
            if waits and self._service is not None and self._held is None:
                held = HeldTick(self._second.tick)
                self._held = held if held.is_held else None  # Else it had nothing to write.
        if self._held is not None and self._held.steps_left is not None:
            self._held.steps_left -= 1
            if self._held.steps_left < 0:
                self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.let_go()

    def committing(self, moved: tuple[Moved, ...]) -> None:
        for fault, told in self._due(moved, 1):
            if fault.kind is Kind.CUT_BEFORE:
                self._inject(fault)
                self._cut_one_of(told)
            elif fault.kind is Kind.BEFORE:
                self._inject(fault)
                raise Died
            elif fault.kind is Kind.REFUSED:
                self._inject(fault)
                raise refused()

    def committed(self, moved: tuple[Moved, ...]) -> None:
        self.note(moved)
        due = self._due(moved, 0)
        for fault, told in due:
            if fault.kind in (Kind.CUT_DURING, Kind.CUT_AFTER):
                self._inject(fault)
                self._to_cut[fault.kind] = told
            elif fault.kind is Kind.HELD and self._held is not None:
                self._inject(fault)
                self._held.steps_left = self._chance.choice((0, 1, 3, 6))
            elif fault.kind is Kind.CLOCK:
                self._inject(fault)
                self._offset_s += self._chance.choice(JUMPS_S)
            elif fault.kind is Kind.LATE:
                self._inject(fault)
                self._apart(self._redeliver)
            elif fault.kind is Kind.TWO:
                self._inject(fault)
                self._apart(self._second.tick)
            elif fault.kind is Kind.AMIDST:
                self._inject(fault)
                self._pushes_left = self._chance.choice((0, 1, 1, 2))
        for fault, _ in due:
            if fault.kind is Kind.AFTER:
                self._inject(fault)
                raise Died

    def note(self, moved: tuple[Moved, ...]) -> None:
        """A transaction has moved rollouts, whoever's it was."""
        for one in moved:
            self._met[one.move] = self._met.get(one.move, 0) + 1
            self.lived.moves.append(one.move)
            self._phase, self._told = one.move[1], one.told

    def second_moved(self, moved: tuple[Moved, ...]) -> None:
        """The second replica was faster, which was what was wanted of it."""
        for one in moved:
            for fault in self.plan.faults:
                if fault.kind is Kind.TWO and not fault.done and fault.move == one.move:
                    self._inject(fault)

    def _due(self, moved: tuple[Moved, ...], ahead: int) -> list[tuple[Fault, tuple[str, ...]]]:
        """The faults of these transitions, with the nodes that are told. ahead: of transitions not counted yet."""
        if self._busy:
            return []
        return [
            (fault, one.told)
            for one in moved
            for fault in self.plan.faults
            if not fault.done and fault.move == one.move and self._met.get(one.move, 0) + ahead == fault.nth
        ]

    def _inject(self, fault: Fault) -> None:
        fault.done = True
        self.lived.injected.append(fault)

    def _apart(self, deed: Callable[[], None]) -> None:
        self._busy = True
        try:
            deed()
        finally:
            self._busy = False

    def _redeliver(self) -> None:
        """Of one node the newest message once more, and an old one."""
        node = self._chance.choice(list(self.nodes.values()))
        if self._service is not None and node.sent:
            for message in (node.sent[-1], self._chance.choice(list(node.sent))):
                self._service.redeliver(node.name, message)

    # -- what is looked at ---------------------------------------------------------------------------------------------

    def _newest(self) -> RolloutRow | None:
        with self._looking.read_session() as session:
            return session.exec(select(RolloutRow).order_by(col(RolloutRow.id).desc()).limit(1)).first()

    def _look(self) -> None:
        with self._looking.read_session() as session:
            rows = session.exec(select(RolloutRow).order_by(col(RolloutRow.id))).all()
            entries = self._fresh_entries(session)
            self._pool_revision = fleet.pool_revision(session, POOL)
        nodes = tuple(
            NodeSeen(node.name, node.runs, self._at_s - node.heard_s, node.linked, node.dead, node.was_cut)
            for node in self.nodes.values()
        )
        seen = tuple(_seen(row) for row in rows)
        if seen:
            self._phase, self._told = seen[-1].phase, seen[-1].told
        self.lived.looks += 1
        look = Look(self._at_s, self._pool_revision, seen, nodes, entries)
        self.lived.found += [f"at {self._at_s:.0f} s: {one}" for one in self._invariants.look(look)]

    def _fresh_entries(self, session: Session) -> tuple[Entry, ...]:
        query = select(LedgerRow).where(col(LedgerRow.id) > self._entries_seen).order_by(col(LedgerRow.id))
        rows = session.exec(query).all()
        self._entries_seen = rows[-1].id or 0 if rows else self._entries_seen
        return tuple(Entry(row.kind, row.subject, row.evidence) for row in rows)

    def _is_over(self) -> bool:
        """Whether it has ended, all nodes are back, and run what is in production; or have had long for that."""
        ended = self._phase in ENDED and not (self._deeds and self._deeds[0][0] is self._phase)
        here = self._service is not None and not any(node.cut or node.dead for node in self.nodes.values())
        self._settled_steps = self._settled_steps + 1 if ended and here else 0
        return self._settled_steps > 0 and (self._is_even() or self._settled_steps * STEP_S > 2 * TOLD_WITHIN_S)

    def _is_even(self) -> bool:
        return all(node.linked and node.runs == self._pool_revision for node in self.nodes.values())

    def _judge_the_end(self) -> None:
        lived = self.lived
        with self._looking.read_session() as session:
            rows = session.exec(select(RolloutRow).order_by(col(RolloutRow.id))).all()
            overridden = session.exec(select(NodeRow.node).where(col(NodeRow.override_revision).is_not(None))).all()
            left = session.exec(select(LedgerRow.subject).where(LedgerRow.kind == CONFIG_LEFT)).all()
        lived.leases_ended = len(left)
        lived.phases = tuple(RolloutPhase(row.phase) for row in rows)
        if not rows:
            lived.found.append("no rollout was made")
        lived.found += [f"rollout {row.id} does not end: {row.phase}" for row in rows if row.phase not in ENDED]
        if lived.found and any(row.phase not in ENDED for row in rows):
            return
        lived.found += [f"{node} still has a revision of its own" for node in overridden]
        if not self._is_even():
            runs = {node.name: node.runs for node in self.nodes.values()}
            lived.found.append(f"the pool's revision is {self._pool_revision}, and nodes run {runs}")
        gone = [node.name for node in self.nodes.values() if node.left and f"node/{node.name}" not in left]
        lived.found += [f"{name} has left by its lease, and the ledger does not know" for name in gone]
        _, wrong = verify(self._looking)
        lived.found += [] if wrong is None else [f"the chain: {wrong}"]


class _Onlooker:
    """Of the second replica: nothing strikes it."""

    def __init__(self, life: RolloutLife) -> None:
        self._life = life

    def writing(self) -> None:
        HeldTick.stand_still()

    def committing(self, moved: tuple[Moved, ...]) -> None: ...

    def committed(self, moved: tuple[Moved, ...]) -> None:
        self._life.note(moved)
        self._life.second_moved(moved)


def _seen(row: RolloutRow) -> RolloutSeen:
    judged = None
    if row.judge is not None and row.judged_until is not None:
        closed = (row.judged_until - first_window(row)).total_seconds() / WINDOW_S
        judged = (int(row.judge["ticks"]), round(closed))
    return RolloutSeen(
        id=row.id or 0,
        pool=row.pool,
        phase=RolloutPhase(row.phase),
        step=row.step,
        holds_pool=row.active_pool is not None,
        revision=row.spec["revision"],
        told=tuple(row.told_nodes),
        judged=judged,
        wave=str(row.judging_since),
    )
