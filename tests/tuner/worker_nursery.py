"""A process that has imported the tuner once, and forks a worker for each line it reads: one JSON object, answered with
the worker's process id. Its workers work until they are killed; replays take no time, and each request what a step of
10 ms for each budget of tokens takes. What they do they write to a file, one line of JSON each, as it happens.

`point`: where a worker stands still, to be killed there, after it has measured `measures` trials: "replaying" the next
one or with it "reported".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.studies import TrialReport
from controlplane.contract.bodies.workload import Workload
from controlplane.terminal import parent_death
from tuner.replay.completion import RequestTiming, pool_samples
from tuner.replay.replay import ReplayResult
from tuner.study import remeasure, study_run, time_plan
from tuner.study.trial_log import TrialLog
from tuner.study.trial_node import TrialNode
from tuner.study.worker import Worker

STANDS_STILL_S = 60.0
PREFILL_S, GAP_S = 0.01, 0.002


def at_once(node: TrialNode, workload: Workload, texts: Sequence[Sequence[int]]) -> ReplayResult:
    """What a replay would have come to on an engine that is never busy."""
    effective = node._view.effective
    assert effective is not None
    budget = effective.knobs["max_num_batched_tokens"]
    timings = []
    for index, (request, text) in enumerate(zip(workload.requests, texts, strict=True)):
        first_s, tokens = PREFILL_S * -(-len(text) // budget), request.output_length
        timing = RequestTiming(index, request.timestamp / 1000, ttft_s=first_s, output_tokens=tokens)
        timing.gaps_s = [GAP_S] * (tokens - 1)
        timing.e2e_s = first_s + sum(timing.gaps_s)
        timings.append(timing)
    return ReplayResult(timings, 0.5, 0.0, samples=pool_samples(timings))


def work(url: str, token: str, name: str, told: str, measures: int | None = None, point: str = "") -> None:
    """In a process of its own, which ends with the one it was forked from."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent_death.ask_for_sigterm()
    reported = 0

    def tell(**what: Any) -> None:
        with open(told, "a", encoding="utf-8") as file:
            file.write(json.dumps({"worker": name, **what}) + "\n")

    def stand_still(at: str) -> None:
        if point == at and measures == reported:
            tell(stands=at)
            time.sleep(STANDS_STILL_S)

    def run(
        node: TrialNode, workload: Workload, texts: Sequence[Sequence[int]], *, deadline_s: float, **how: Any
    ) -> ReplayResult:
        if deadline_s not in (10.0, 8.0):  # Those of warming up and of priming.
            stand_still("replaying")
        return at_once(node, workload, texts)

    report = TrialLog.report

    def report_told(log: TrialLog, about: TrialReport) -> None:
        nonlocal reported
        report(log, about)
        reported += 1
        tell(number=about.number, kind=about.kind, tokens=about.knobs["max_num_batched_tokens"])
        stand_still("reported")

    TrialNode.run = run  # type: ignore[method-assign]
    TrialLog.report = report_told  # type: ignore[method-assign]
    study_run.CORPUS_TOKENS = 6000
    study_run.NODE_POLL_S = 0.05
    time_plan.SHORTEST_SPAN_S = time_plan.LONGEST_SPAN_S = 0.7
    remeasure.USUAL_PAIRS = 2
    with Client(url, token) as client:
        Worker(client, name, heartbeat_s=0.1).loop(0.05)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The dead are buried by the system.
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                work(**json.loads(line))
            finally:
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
