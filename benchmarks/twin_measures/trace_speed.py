"""How many times faster than the clock the twin serves the Mooncake conversation trace, on one core.

The step costs are a large model's, about: 12 ms a step and 60,000 prompt tokens a second; blocks are of the trace's own
512 tokens, the cache holds 3 million. Processor time counts, so that a busy machine does not; the wall's is told too.
"""

import time
from pathlib import Path

from agents.engine.scheduling.policy import Policy
from controlplane.contract.knobs import parse_config
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.simulated_engine import EngineShape, SimulatedEngine
from tuner.workload.trace_file import load

COST = StepCost((0.012, 1 / 60_000, 0.0, 3e-5, 8e-9, 1e-10))
SHAPE = EngineShape(num_blocks=6000, block_size=512, policy=Policy(max_waiting=None))
CONFIG = parse_config({"max_num_batched_tokens": 8192, "max_num_seqs": 256})


def speed(trace: Path, most: int) -> str:
    """most: requests, from the start."""
    workload = load(trace)
    workload = workload.model_copy(update={"requests": workload.requests[:most]})
    ((_, arrivals),) = dealt(workload, 1, Scale(), 0)
    engine = SimulatedEngine(SHAPE, CONFIG, COST)
    wall, used = time.perf_counter(), time.process_time()
    stories = engine.run(arrivals)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    span_s = workload.requests[-1].timestamp / 1000.0
    ended = sum(story.ended_s is not None for story in stories)
    hits = engine.scheduler.prefix_hits / engine.scheduler.prefix_queries
    return (
        f"{len(stories)} requests over {span_s:.0f} s ({ended} ended, {engine.steps} steps, {hits:.1%} of prompts "
        f"cached): {used:.1f} s of processor time, {span_s / used:.0f} x real time; {wall:.1f} s by the wall"
    )
