"""vLLM with plugin, live scheduler, agent and control plane, against vLLM as it comes, in interleaved rounds.

Guarantee: while one server is measured the others, and an agent that is not theirs, are held still (SIGSTOP). Each
round sends the same prompts to each server, nobody is always first, and ratios are taken round by round.
"""

import random
from dataclasses import dataclass, field

from benchmarks.engine_measures.report import figure, heading, note, progress, spread, table
from benchmarks.engine_measures.stats import summarize
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures.interval import Change, change
from benchmarks.vllm_measures.plane import attached, is_up
from benchmarks.vllm_measures.processes import Child
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.clients import Clients, requests
from benchmarks.vllm_measures.traffic.shapes import even
from benchmarks.vllm_measures.vllm_server import MAX_NUM_SEQS, VllmServer

GOAL = 0.01
_CLIENTS = MAX_NUM_SEQS + MAX_NUM_SEQS // 2
"""More than run at once, so that the server is never short of work."""
_NEW_TOKENS = 64
_ROUND_S, _QUICK_ROUND_S = 8.0, 3.0
_ROUNDS_EACH = 4
"""Rounds of this measure for one of the command line's: its goal is the finest."""
WITH, PLAIN, AGAIN = "with plugin and agent", "as it comes", "as it comes, again"
_NODE = "throughput"
_THREADS = ("tailwright-feed", "tailwright-limits")
"""The plugin's own: one in vLLM's server process, one in its engine process."""


@dataclass
class Contestant:
    """One server, and what its rounds took."""

    server: VllmServer
    agent: Child | None = None
    other_texts: str = ""
    """Of a second contestant on the same server, which would find the first one's prompts in its cache."""
    tokens_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """CPU seconds of all its processes for a thousand tokens."""

    def hold(self) -> None:
        # The agent first: it must not find a server that does not answer.
        for child in (self.agent, self.server.child):
            if child is not None:
                child.hold()

    def resume(self) -> None:
        for child in (self.server.child, self.agent):
            if child is not None:
                child.resume()


@dataclass
class Beside:
    """CPU seconds spent beside vLLM's own work, over the rounds of `WITH`, and the tokens of those rounds."""

    tokens: int = 0
    agent_s: float = 0.0
    threads_s: dict[str, float] = field(default_factory=dict)
    plane_s: float = 0.0

    def share(self, cpu_s: float) -> str:
        return figure(1000.0 * cpu_s / self.tokens) if self.tokens else "-"


def measure(session: Session) -> None:
    session.close_attached()
    heading("Throughput with and without")
    contestants = _start(session)
    try:
        beside = _rounds(session, contestants)
    finally:
        for one in contestants.values():
            one.resume()
        for server in {id(one.server): one.server for one in contestants.values()}.values():
            session.stop(server.child)
        for one in contestants.values():
            if one.agent is not None:
                session.stop(one.agent)
    _print(contestants, beside)


def _start(session: Session) -> dict[str, Contestant]:
    """All at once. With --quick the second plain one is the first one again: a server less to start."""
    plane = session.plane
    servers = {
        WITH: session.server("with", tailwright=True, drafts=False),
        PLAIN: session.server("plain", tailwright=False, drafts=False),
    }
    if not session.settings.quick:
        servers[AGAIN] = session.server("plain-again", tailwright=False, drafts=False)
    for server in servers.values():
        server.wait_healthy()
    found = {name: Contestant(server) for name, server in servers.items()}
    if AGAIN not in found:
        found[AGAIN] = Contestant(found[PLAIN].server, other_texts=":again")
    first = found[WITH]
    first.agent = plane.agent(_NODE, attached(first.server.url, first.server.share))
    plane.await_node(_NODE, first.agent, is_up)
    for one in found.values():
        one.hold()
    return found


def _rounds(session: Session, contestants: dict[str, Contestant]) -> Beside:
    rng = random.Random(f"{session.settings.seed}:throughput")
    limit_s = _QUICK_ROUND_S if session.settings.quick else _ROUND_S
    warm = [_round(session, one, 2 * _CLIENTS, -1 - number, None) for number, one in enumerate(contestants.values())]
    count = max(2 * _CLIENTS, _CLIENTS * round(limit_s * max(warm) / _NEW_TOKENS / _CLIENTS))
    beside = Beside()
    rounds = session.settings.rounds * _ROUNDS_EACH
    for number in range(rounds):
        names = list(contestants)
        rng.shuffle(names)
        for name in names:
            one = contestants[name]
            one.tokens_s.append(_round(session, one, count, number, beside if name == WITH else None))
        told = ", ".join(f"{name} {figure(contestants[name].tokens_s[-1])}" for name in contestants)
        progress(f"throughput round {number + 1} of {rounds}: tokens/s {told}")
    return beside


def _round(session: Session, one: Contestant, count: int, number: int, beside: Beside | None) -> float:
    """Output tokens a second of so many requests; the server's CPU time is noted, except in warm-up rounds."""
    seed = f"{session.settings.seed}:throughput:{number}"
    prompts = requests(session.texts.code(seed + one.other_texts), even(seed, count, _NEW_TOKENS))
    server, agent, plane = one.server.child, one.agent, session.plane.child
    one.resume()
    try:
        before = server.cpu_s()
        parts = (agent.cpu_s() if agent else 0.0, _threads(server), plane.cpu_s())
        served = Clients(
            session.nursery, one.server.port, prompts, clients=_CLIENTS, seed=max(number, 0), total=count
        ).wait()
        if served.failed:
            raise WorkerFailed(f"{len(served.failed)} requests failed: {served.failed[0]}")
        if number >= 0:
            one.cpu_s.append(1000.0 * (server.cpu_s() - before) / served.tokens)
        if beside is not None:
            beside.tokens += served.tokens
            beside.agent_s += (agent.cpu_s() if agent else 0.0) - parts[0]
            for name, cpu_s in _threads(server).items():
                beside.threads_s[name] = beside.threads_s.get(name, 0.0) + cpu_s - parts[1].get(name, 0.0)
            beside.plane_s += plane.cpu_s() - parts[2]
    finally:
        one.hold()
    return served.tokens / served.wall_s


def _threads(server: Child) -> dict[str, float]:
    """Those that are there under their name."""
    return {name: cpu_s for name in _THREADS if (cpu_s := server.thread_cpu_s(name)) is not None}


def _print(contestants: dict[str, Contestant], beside: Beside) -> None:
    plain, again, ours = contestants[PLAIN], contestants[AGAIN], contestants[WITH]
    same = plain.server is again.server
    note(
        f"{len(plain.tokens_s)} rounds; in each, {_CLIENTS} clients in a closed loop send the same short prompts with "
        f"{_NEW_TOKENS} new tokens each to each server, at most {MAX_NUM_SEQS} running; the servers that are not "
        "measured, and the agent with them, are held still. The agent, the control plane and the load share the cores "
        "with the server. Change: geometric mean of the ratios to the plain server's, round by round (95 % interval). "
        f"The noise floor is the plain server against {'itself' if same else 'a second plain one'}. CPU: seconds of "
        "all of vLLM's processes for a thousand output tokens."
    )
    rows = []
    for name, one in contestants.items():
        faster, dearer = change(one.tokens_s, plain.tokens_s), change(one.cpu_s, plain.cpu_s)
        rows.append(
            [
                name,
                spread(summarize(one.tokens_s)),
                "" if one is plain else faster.told,
                spread(summarize(one.cpu_s)),
                "" if one is plain else dearer.told,
            ]
        )
    table(["vLLM", "tokens/s", "change", "CPU s per 1,000 tokens", "change"], rows)
    threads = ", ".join(f"{name} {beside.share(cpu_s)}" for name, cpu_s in beside.threads_s.items())
    note(
        f"CPU seconds per 1,000 output tokens beside that: agent {beside.share(beside.agent_s)}, control plane "
        f"{beside.share(beside.plane_s)}; within vLLM's own, of the plugin's threads: "
        f"{threads or 'none found by name'}."
    )
    _judge(change(ours.tokens_s, plain.tokens_s), change(again.tokens_s, plain.tokens_s))


def _judge(loss: Change, floor: Change) -> None:
    note(f"Change {loss.told}, noise floor {floor.told}, goal a loss under 1 %: **{verdict(loss)}**.")


def verdict(change: Change) -> str:
    """What the interval says of the goal: both of its ends have to be on the same side."""
    if -change.low < GOAL:
        return "reached"
    if -change.high >= GOAL:
        return "NOT reached"
    return "not decided, the interval reaches over both sides: more rounds, or a quieter machine"
