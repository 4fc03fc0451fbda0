"""Runs one after another, each in a database and folder of its own, and the table of what they found."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import httpx

from benchmarks.engine_measures.report import note, table
from benchmarks.rollout_chaos.empty_databases import Databases
from benchmarks.rollout_chaos.planned_faults import Kind, Plan, moves
from benchmarks.rollout_chaos.rollout_life import Lived, RolloutLife

NOBODY = httpx.MockTransport(lambda _: httpx.Response(503))
"""The agents' client is never asked to send anything: the wire is in memory."""


def live(plans: Iterable[Plan], databases: Databases, folder: Path, after: Callable[[Lived], None]) -> list[Lived]:
    """after: is told of each as it ends."""
    return asyncio.run(_live(plans, databases, folder, after))


async def _live(
    plans: Iterable[Plan], databases: Databases, folder: Path, after: Callable[[Lived], None]
) -> list[Lived]:
    found = []
    async with httpx.AsyncClient(transport=NOBODY) as http:
        for place, plan in enumerate(plans):
            url, states = databases.make(f"run{place}"), folder / f"run{place}"
            try:
                found.append(await RolloutLife(plan, url, states, http).run())
            finally:
                databases.drop(url)
                shutil.rmtree(states, ignore_errors=True)
            after(found[-1])
    return found


def tell(lives: Sequence[Lived]) -> None:
    """Each cell: how often that fault was injected there; in bold, how many of these runs found something."""
    runs: Counter[tuple[object, Kind]] = Counter()
    bad: Counter[tuple[object, Kind]] = Counter()
    for lived in lives:
        for fault in lived.injected:
            runs[fault.move, fault.kind] += 1
            bad[fault.move, fault.kind] += bool(lived.found)

    def cell(key: tuple[object, Kind]) -> str:
        return f"{runs[key]}" + (f", **{bad[key]}**" if bad[key] else "")

    rows = [
        [f"{move[0].value} -> {move[1].value}", *(cell((move, kind)) for kind in Kind)]
        for move in moves()
        if any(runs[move, kind] for kind in Kind)
    ]
    rows.append(["all", *(str(sum(count for (_, kind), count in runs.items() if kind is one)) for one in Kind)])
    table(["transition", *(kind.value for kind in Kind)], rows)
    ends = Counter(phase.value for lived in lives for phase in lived.phases)
    counts = {
        "runs": len(lives),
        "faults": sum(len(lived.injected) for lived in lives),
        "deaths of the service": sum(lived.deaths for lived in lives),
        "nodes cut off": sum(lived.cut_off for lived in lives),
        "heartbeats answered from memory": sum(lived.beats for lived in lives),
        "leases that ended": sum(lived.leases_ended for lived in lives),
        "looks at everything": sum(lived.looks for lived in lives),
        **{f"rollouts {phase.replace('_', ' ')}": count for phase, count in sorted(ends.items())},
    }
    note("; ".join(f"{name} {count:,}" for name, count in counts.items()))
    wrong = [lived for lived in lives if lived.found]
    note(f"**{len(wrong)} runs with a violation**")
    for lived in wrong:
        note(f"- {lived.plan}")
        for one in lived.found[:5]:
            note(f"  - {one}")
