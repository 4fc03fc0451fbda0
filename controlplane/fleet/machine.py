"""What a node should run, whether it does, and what has to be sent: pure, no I/O.

Guarantees: a node is offered a configuration until it acknowledges that very one; a node that already runs it by
itself is left alone; a knob that an engine does not report is never called drift.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeRole
from controlplane.contract.knobs import KNOBS, canonical_json, difference
from controlplane.contract.reports.declared_knobs import started_as


@dataclass(frozen=True)
class Acknowledged:
    """What the agent last said of remote configurations: the hash it had last, and what came of it."""

    hash: str = ""
    status: ConfigStatus = ConfigStatus.UNSET
    error: str = ""


@dataclass(frozen=True)
class Engine:
    """What an agent says of the engine's process ("SOURCE:ID") and version; empty where it does not tell."""

    process: str = ""
    version: str = ""

    def or_as(self, before: "Engine") -> "Engine":
        """What is not told is as it was."""
        return Engine(self.process or before.process, self.version or before.version)


class EngineNews(StrEnum):
    """What became of an engine, as the ledger's kind of it."""

    VERSION = "node.engine_version"  # Another version serves, and so another process.
    RESTARTED = "node.engine_restarted"  # Another process serves.


@dataclass(frozen=True)
class Wish:
    """What a node should do: run a revision, and have emptied its prefix cache so many times by request.

    `promoted`: the revision is on trial in production, on a lease; a node that hears nothing for as long goes back to
    this one by itself.
    """

    revision: Revision
    cache_reset: int = 0
    promoted: Revision | None = None
    bodies: dict[float, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By lease what `remote_body` has found: of a wave's nodes all get the same."""

    @property
    def mark(self) -> "Mark":
        """Differs whenever the wish does."""
        return Mark(self.revision.number, self.cache_reset, None if self.promoted is None else self.promoted.number)

    @cached_property
    def knobs(self) -> dict[str, Any]:
        """What the revision asks for, as JSON; to be read only."""
        return self.revision.knobs.knobs()

    @cached_property
    def hash(self) -> str:
        """The OpAMP config_hash as text: "NUMBER:SHA256", ":RESETS" where the cache was to be emptied, ":over-NUMBER"
        where it is on a lease over the promoted revision: once that is over by promotion, the agent has to hear of it.
        """
        resets = f":{self.cache_reset}" if self.cache_reset else ""
        over = f":over-{self.promoted.number}" if self.promoted else ""
        return f"{self.revision.number}:{self.revision.hash}{resets}{over}"


class Mark(NamedTuple):
    """A wish by its numbers: the revision, the cache's emptyings, and the promoted revision behind a lease."""

    revision: int
    cache_reset: int
    promoted: int | None


def mark(role: NodeRole, override: int | None, pool_revision: int | None, cache_reset: int) -> Mark | None:
    """What a node should do; None leaves it as it is.

    On a serving node an override is a rollout's, and leased: nobody has judged it to the end. A trial node's is its
    study's, and serves nobody.
    """
    number = wanted_revision(override, pool_revision)
    if number is None:
        return None
    leased = role is NodeRole.SERVING and number != pool_revision
    return Mark(number, cache_reset, pool_revision if leased else None)


def wanted_revision(override: int | None, pool_revision: int | None) -> int | None:
    """The number of the revision a node should run; None leaves the node as it is."""
    return override if override is not None else pool_revision


def remote_body(wish: Wish, lease_s: float) -> bytes:
    """The body of the configuration map's entry "engine.json". Agents pass over keys that they do not know."""
    if lease_s not in wish.bodies:
        wish.bodies[lease_s] = _remote_body(wish, lease_s)
    return wish.bodies[lease_s]


def _remote_body(wish: Wish, lease_s: float) -> bytes:
    body = _body(wish.revision)
    if wish.cache_reset:
        body["cache_reset"] = wish.cache_reset
    if wish.promoted is not None:
        body["lease"] = {"duration_s": lease_s, "promoted": _body(wish.promoted)}
    return canonical_json(body).encode()


def _body(revision: Revision) -> dict[str, Any]:
    return {"revision": revision.number, "hash": revision.hash, "knobs": revision.knobs.knobs()}


def revision_part(config_hash: str) -> str:
    """What of a config_hash names the revision alone."""
    return ":".join(config_hash.split(":")[:2])


def differing_knobs(desired: Mapping[str, Any], effective: Mapping[str, Any]) -> list[str]:
    """Names of the knobs that the engine reports with another value than the desired one, sorted."""
    return list(difference(desired, effective))


def drifts(wish: Wish | None, effective: EffectiveConfig | None) -> bool:
    """True when the node should run something and is known to run something else."""
    if wish is None or effective is None:
        return False
    return bool(differing_knobs(started_as(effective.declared, wish.knobs), effective.knobs))


def must_offer(wish: Wish | None, acknowledged: Acknowledged, effective: EffectiveConfig | None) -> bool:
    """True when the wish has to be sent to the agent.

    An engine that already runs the desired revision is not disturbed. One that runs its knobs under another number (0:
    it was never given any, its pool's first revision was adopted from it) is given the number, so that its telemetry
    carries the revision's label; equal knobs change nothing else in the engine.
    """
    if wish is None or acknowledged.hash == wish.hash:
        return False
    if acknowledged.hash or effective is None or wish.cache_reset:
        return True
    return drifts(wish, effective) or effective.revision != wish.revision.number


def shown_status(desired: Revision | None, acknowledged: Acknowledged, offering: bool) -> tuple[ConfigStatus, str]:
    """Status and error as the API shows them: of the desired revision, never of one before it."""
    if desired is not None and offering:
        return ConfigStatus.APPLYING, ""
    return acknowledged.status, acknowledged.error


def adoptable(role: NodeRole, pool_revision: int | None, effective: EffectiveConfig | None) -> bool:
    """True when what this node runs becomes its pool's first revision, so that there is one to go back to."""
    return role is NodeRole.SERVING and pool_revision is None and effective is not None and bool(known(effective))


def known(effective: EffectiveConfig) -> dict[str, Any]:
    """The reported knobs that the contract knows, and those of the node's own that are not as at the start."""
    own = {name: knob.start for name, knob in effective.declared.items()}
    return {
        name: value
        for name, value in effective.knobs.items()
        if name in KNOBS or (name in own and canonical_json(value) != canonical_json(own[name]))
    }


def began_earlier(uid: str, held_uid: str | None) -> bool:
    """True when the agent process `uid` is known to have begun before the process `held_uid`.

    OpAMP's instance_uid is a UUID, of version 7 by recommendation: its first 48 bits tell the millisecond it was made
    (RFC 9562, 5.7). Of other versions nothing is known.
    """
    if held_uid is None or uid[12:13] != "7" or held_uid[12:13] != "7":
        return False
    return uid[:12] < held_uid[:12]


def engine_news(before: Engine, now: Engine) -> EngineNews | None:
    """What is known to have happened between them. Processes are told apart only by one source's own names: a vLLM
    server has another name to its plugin than by its start time."""
    if before.version and now.version and before.version != now.version:
        return EngineNews.VERSION
    one_source = before.process.partition(":")[0] == now.process.partition(":")[0]
    if before.process and one_source and before.process != now.process:
        return EngineNews.RESTARTED
    return None


def in_sequence(stored_uid: str | None, stored_sequence: int, uid: str, sequence: int) -> bool:
    """True when no message of this agent process was lost before this one (OpAMP, AgentToServer.sequence_num)."""
    return stored_uid == uid and sequence == stored_sequence + 1
