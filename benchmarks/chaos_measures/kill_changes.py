"""Does a node run what nobody judged? Rollouts one after another, and what each engine was made to run, by itself.

The engines are stand-ins that keep every configuration they were given, with its time, and are as fast as it says: so
rollouts are better, worse or equal, and the judge has something to find. `unjudged` holds that history against the
ledger: a revision may be on a node when it is the baseline or the node's own, when a rollout that has this node as its
canary has begun, or after the ledger says that its rollout was judged good.
"""

import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx

from benchmarks.telemetry_measures.under_kills.kill_engine import KillEngine
from controlplane.client import Client
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import ENDED, OnInconclusive, Rollout, RolloutCreate, Verdict
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import EngineConfig

SKEW = timedelta(seconds=1)
"""The service's clock is read before the push, the engine's after it; both are of one machine."""
_KNOB, _VALUES = "max_num_seqs", (16, 24, 32, 48, 64, 96, 128)
_POLL_S = 0.5
STUCK_S = 420.0
AGREED_S = 180.0
_GOOD = {Verdict.BETTER, Verdict.NOT_WORSE}
_PROMOTING = {"rollout.promoting", "rollout.promoted"}


@dataclass(frozen=True)
class InForce:
    """What an engine was told to run, and when."""

    at: datetime
    revision: int
    config: EngineConfig


class ConfigurableEngine(KillEngine):
    """Slow in inverse proportion to one knob, with noise. `history`: all it has run."""

    def __init__(self, per_s: float, model: str, seed: int) -> None:
        self._config, self._rng = EngineConfig(), random.Random(seed)
        self.history = [InForce(datetime.now(UTC), 0, self._config)]
        super().__init__(per_s, model)
        self.revision = 0

    def slowness(self) -> float:
        return 64 / max(1, self._config.max_num_seqs) * self._rng.lognormvariate(0, 0.3)

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "PUT" and path == "/config":
            told = json.loads(body)
            self._config, self.revision = EngineConfig(**told["knobs"]), int(told["revision"] or 0)
            self.history.append(InForce(datetime.now(UTC), self.revision, self._config))
        if path == "/health":
            return b'{"status": "ok"}'
        told = {"revision": self.revision, "knobs": self._config.knobs(), "sources": {}, "draining": False}
        return json.dumps(told).encode()


def unjudged(
    node: str, history: Sequence[InForce], baseline: int, rollouts: Sequence[Rollout], ledger: Sequence[LedgerEntry]
) -> list[str]:
    """What `node` ran without a judgement, each in a sentence; what it ran from its start is its own."""
    good_since: dict[int, datetime] = {}
    canary_since: dict[int, datetime] = {}
    verdicts = {
        entry.subject: entry.time
        for entry in sorted(ledger, key=lambda one: one.id, reverse=True)
        if entry.kind in _PROMOTING
    }
    for rollout in rollouts:
        revision = rollout.spec.revision
        judged = verdicts.get(f"rollout/{rollout.id}")
        if rollout.verdict in _GOOD and judged is not None:  # The rollout says so, and the ledger says when.
            good_since[revision] = min(judged, good_since.get(revision, judged))
        if node in rollout.canary_nodes and rollout.started_at is not None:
            canary_since[revision] = min(rollout.started_at, canary_since.get(revision, rollout.started_at))
    found = []
    for one in history:
        if one.revision == baseline or one.config == history[0].config:
            continue
        since = [when for when in (good_since.get(one.revision), canary_since.get(one.revision)) if when is not None]
        if not since or min(since) > one.at + SKEW:
            found.append(f"{node} ran revision {one.revision} at {one.at:%H:%M:%S}, which nobody had judged")
    return found


def mistold(runs: Mapping[str, int], nodes: Sequence[NodeView]) -> list[str]:
    """Nodes of which the service says another revision than their engine runs, each in a sentence.

    A rollout ends without the nodes that are not connected: one whose agent was killed shortly before, and is not yet
    back, learns afterwards what it should run, and tells later still what it does.
    """
    told = {view.node: view.effective and view.effective.revision for view in nodes if view.node in runs}
    return [
        f"{node} runs revision {runs[node]}, the service says {revision}"
        for node, revision in told.items()
        if revision != runs[node]
    ]


class Changes:
    """Rollouts in `pool`, until `close`, which waits for the one under way. `stuck`: those that did not end."""

    def __init__(self, client: Client, pool: str, seed: int) -> None:
        self.stuck: list[str] = []
        self._client, self._pool, self._rng = client, pool, random.Random(seed)
        self._stop = threading.Event()
        self.baseline = client.create_config(RevisionCreate(knobs={_KNOB: 48})).number
        spec = RolloutCreate(pool=pool, revision=self.baseline, emergency=True, reason="the baseline")
        begun = client.create_rollout(spec)
        until = time.monotonic() + STUCK_S
        while client.rollout(begun.id).phase not in ENDED and time.monotonic() < until:
            time.sleep(_POLL_S)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * STUCK_S)

    def check(self, engines: dict[str, ConfigurableEngine]) -> list[str]:
        """What ran unjudged, and nodes of which the service still says another revision than they run."""

        def differing() -> list[str]:
            nodes = self._client.nodes()
            return mistold({name: engine.revision for name, engine in engines.items()}, nodes)

        until = time.monotonic() + AGREED_S
        while (found := differing()) and time.monotonic() < until:
            time.sleep(_POLL_S)
        rollouts, ledger = self._rollouts(), list(self._client.every(LedgerEntry, "/api/v1/ledger", kind="rollout"))
        for node, engine in engines.items():
            found += unjudged(node, engine.history, self.baseline, rollouts, ledger)
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._one()
            except (TailwrightError, httpx.HTTPError):
                time.sleep(_POLL_S)  # Killed, held, or a rollout is under way: look again.

    def _rollouts(self) -> list[Rollout]:
        return [one for one in self._client.rollouts() if one.spec.pool == self._pool]

    def _one(self) -> None:
        """One rollout to its end, or the one that is under way."""
        open_ones = [one for one in self._rollouts() if one.phase not in ENDED]
        if not open_ones:
            revision = self._client.create_config(RevisionCreate(knobs={_KNOB: self._rng.choice(_VALUES)}))
            spec = RolloutCreate(
                pool=self._pool,
                revision=revision.number,
                canary_share=0.5,
                tolerance=0.5,
                min_judge_s=5,
                max_judge_s=45,
                apply_timeout_s=60,
                on_inconclusive=OnInconclusive.ROLL_BACK,  # Nobody is there for whom it could be held.
            )
            open_ones = [self._client.create_rollout(spec)]
        rollout, began = open_ones[0], time.monotonic()
        while rollout.phase not in ENDED:
            if time.monotonic() - began > STUCK_S:
                self.stuck.append(f"rollout {rollout.id} is {rollout.phase} after {STUCK_S:g} s: {rollout.message}")
                self._client.cancel_rollout(rollout.id)
                return
            time.sleep(_POLL_S)
            try:
                rollout = self._client.rollout(rollout.id)
            except (TailwrightError, httpx.HTTPError):
                continue
