"""What each node runs, wave by wave: before the rollout, from its wave on, and at the end or now. Pure.

Guarantee: what a node ran at the end is what the rollout wrote down then; what it runs now is what it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.contract.bodies.rollouts import Rollout
from web.frame.states import Kind
from web.rollouts.judgements import Judgement

NODES_AT_END = "nodes_at_end"
"""The part of a rollout's evidence that says what each node ran when it ended."""
MOST_NAMED = 6


@dataclass(frozen=True)
class WaveRow:
    """Nodes that were told together, or that are still to be. Revisions as they are written; `runs`: at the end, or
    now. `kind` is None where nothing was judged."""

    title: str
    nodes: str
    before: str
    then: str
    runs: str
    judged_from: datetime | None
    judged_until: datetime | None
    kind: Kind | None
    word: str


def wave_rows(rollout: Rollout, judged: Sequence[Judgement], runs: Mapping[str, int | None]) -> list[WaveRow]:
    """The canary first, those not told last. runs: revisions by node, at the end or now; None: it told nothing."""
    rows, begun = [], 0
    by_key = {one.key: one for one in judged}
    was, new = _number(rollout.previous_revision), str(rollout.spec.revision)
    groups = [wave.group for wave in rollout.waves]
    for place, size in enumerate(_sizes(rollout)):
        nodes = rollout.told_nodes[begun:size]
        begun = size
        if not nodes:
            break
        group = f", {groups[place]}" if groups and groups[place] else ""
        one = by_key.get("canary" if place == 0 else f"wave-{place}")
        rows.append(
            WaveRow(
                title=("Canary" if place == 0 and not rollout.spec.emergency else f"Wave {place}" if place else "All")
                + group,
                nodes=named(nodes),
                before=was,
                then=new,
                runs=_runs(nodes, runs),
                judged_from=None if one is None else one.since,
                judged_until=None if one is None or not one.over else one.until,
                kind=None if one is None else one.kind,
                word="" if one is None else one.word,
            )
        )
    rest = [node for node in rollout.control_nodes if node not in rollout.told_nodes]
    if rest and rollout.told_nodes:
        still = "not told" if rollout.ended_at else "not told yet"
        rows.append(WaveRow(still.capitalize(), named(rest), was, "–", _runs(rest, runs), None, None, None, ""))
    return rows


def ran_at_end(rollout: Rollout) -> dict[str, int | None]:
    """Revisions by node as the rollout wrote them down when it ended; empty where it did not."""
    kept = rollout.evidence.get(NODES_AT_END)
    if not isinstance(kept, dict):
        return {}
    return {name: None if node is None else node.get("revision") for name, node in kept.items()}


def named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return ", ".join(nodes[:MOST_NAMED]) + more


def _sizes(rollout: Rollout) -> list[int]:
    """Nodes told after each wave: as the waves say, or of an older rollout the canary and all others."""
    return [wave.nodes for wave in rollout.waves] or [len(rollout.canary_nodes), len(rollout.told_nodes)]


def _runs(nodes: Sequence[str], runs: Mapping[str, int | None]) -> str:
    """Each revision once, the most frequent first, with how many where they differ."""
    known = [runs.get(node) for node in nodes]
    counts = {one: known.count(one) for one in dict.fromkeys(known)}
    if len(counts) == 1:
        return _number(next(iter(counts)))
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{_number(revision)} ({count})" for revision, count in ordered)


def _number(revision: int | None) -> str:
    return "–" if revision is None else str(revision)
