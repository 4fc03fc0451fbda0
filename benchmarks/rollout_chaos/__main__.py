"""Chaos at each transition of a rollout: kills, cut-offs, two replicas, refused writes, on an injected clock.

    python -m benchmarks.rollout_chaos [--runs 1000] [--seed 1] [--only KIND_OR_TRANSITION] [--replay SEED:RUN]

A run is one life of a rollout, with the real controller, machine, database, fleet store, OpAMP exchange, and agents'
appliers and leases; the judge's verdicts are scripted, engines take what they are given at once. The first 396 runs
have every transition with every kind of fault once, the rest up to three faults at random. Prints a table by transition
and fault, and each violation with what replays it. Status 1 when there is one.
"""

import argparse
import logging
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.engine_measures.report import note, progress
from benchmarks.rollout_chaos.empty_databases import Databases, Files, OnServer
from benchmarks.rollout_chaos.many_lives import live, tell
from benchmarks.rollout_chaos.planned_faults import Plan, plan_of
from benchmarks.rollout_chaos.rollout_life import Lived
from benchmarks.telemetry_measures.on_postgresql.postgresql_server import Postgresql

PROGRESS_EVERY = 50


def main() -> int:
    asked = _parser().parse_args()
    logging.disable(logging.CRITICAL)  # Each fault is told of in the product's log, with its traceback.
    note("## Chaos at each transition of a rollout\n")
    note(f"{describe_machine()}, commit {commit()}, Python {platform.python_version()}")
    plans = _plans(asked)
    note(f"- {len(plans)} runs, seed {asked.seed}, {asked.database}")
    done = 0

    def after(lived: Lived) -> None:
        nonlocal done
        done += 1
        for one in lived.found:
            progress(f"FOUND: {lived.plan}: {one}")
        if done % PROGRESS_EVERY == 0:
            progress(f"{done} of {len(plans)}")

    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-chaos-", dir=asked.folder)))
        lives = live(plans, _databases(asked.database, folder, stack), folder, after)
    tell(lives)
    note(f"\n{time.monotonic() - began:.0f} s")
    return 1 if any(lived.found for lived in lives) else 0


def _plans(asked: argparse.Namespace) -> list[Plan]:
    if asked.replay:
        seed, _, number = asked.replay.partition(":")
        return [plan_of(int(seed), int(number))]
    plans = [plan_of(asked.seed, number) for number in range(asked.first, asked.first + asked.runs)]
    return [plan for plan in plans if asked.only in str(plan)]


def _databases(kind: str, folder: Path, stack: ExitStack) -> Databases:
    if kind == "sqlite":
        return Files(folder)
    server = Postgresql(os.sched_getaffinity(0))
    stack.callback(server.close)
    return OnServer(server.url)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.rollout_chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="runs whose description has this, as in 'dies' or 'canary -> judging'"
    )
    parser.add_argument("--replay", default="", metavar="SEED:RUN", help="one run again")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", type=Path, help="where databases are made; default: the temporary one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
