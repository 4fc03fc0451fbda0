"""From the control plane's decision to the step that runs it, for live limits, under load."""

import random
import time

from benchmarks.engine_measures.report import figure, heading, note, progress, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.vllm_measures.knobs import BASE, Change, drawn, give
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.background import load
from benchmarks.vllm_measures.traffic.clients import requests
from benchmarks.vllm_measures.traffic.shapes import mixed

GOAL_S, GOAL_STEPS = 1.0, 2
_CHANGES, _QUICK_CHANGES = 40, 10
_PAUSE_S = (0.1, 0.6)
_WARM_S = 1.0


def measure(session: Session) -> None:
    heading("From decision to step, live limits")
    here = session.attached
    rng = random.Random(f"{session.settings.seed}:decisions")
    count = _QUICK_CHANGES if session.settings.quick else _CHANGES
    prompts = requests(session.texts.code("decisions"), mixed(f"{session.settings.seed}:decisions", 200))
    changes: list[Change] = []
    with load(session, here.server.port, prompts) as outcome:
        time.sleep(_WARM_S)
        knobs = BASE
        for _ in range(count):
            time.sleep(rng.uniform(*_PAUSE_S))
            knobs = drawn(rng, knobs)
            changes.append(give(session.plane, here, knobs))
        give(session.plane, here, BASE)
    progress(f"decisions: {len(changes)} changes, slowest {max(one.in_force_s for one in changes):.3f} s")
    _print(changes, outcome.served.summary)


def _print(changes: list[Change], failed: str) -> None:
    note(
        f"{len(changes)} changes of all four limits at random times under a closed loop of clients. Decision: the "
        "moment before PUT .../trial-config is sent to the control plane. Receipt: when the agent has the wish. In "
        "force: the moment between two steps that the plugin's scheduler itself writes down. Steps: those that began "
        "after the receipt and before the first that ran the new limits."
    )
    known = [one for one in changes if one.received_s is not None]
    columns = {
        "decision to receipt, ms": [one.received_s for one in known if one.received_s is not None],
        "receipt to step, ms": [one.in_force_s - one.received_s for one in known if one.received_s is not None],
        "decision to step, ms": [one.in_force_s for one in changes],
    }
    rows = [
        [name.removesuffix(", ms"), *(figure(1000 * quantile(values, q)) for q in (0.5, 0.95, 1.0))]
        for name, values in columns.items()
    ]
    table(["ms", "p50", "p95", "max"], rows)
    steps = [one.steps_waited for one in changes if one.steps_waited is not None]
    if steps:
        told = ", ".join(f"{number}: {steps.count(number)} times" for number in sorted(set(steps)))
        note(f"Steps waited: {told}.")
    else:
        note("Steps waited: the plugin does not say.")
    slowest = max(one.in_force_s for one in changes)
    reached = slowest < GOAL_S and bool(steps) and max(steps) <= GOAL_STEPS
    note(
        f"Slowest change: {1000 * slowest:.0f} ms; most steps waited: {max(steps) if steps else '-'}; failed requests: "
        f"{failed}; goal under {GOAL_S:g} s and at most {GOAL_STEPS} steps: "
        f"**{'reached' if reached else 'NOT reached'}**."
    )
