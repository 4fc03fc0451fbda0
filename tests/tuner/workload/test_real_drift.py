"""A traffic's drift is told on real arrivals: never of blocks of one trace dealt to two sides, always of doubled
prompts."""

from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.traffic_mix import LOOK_BACK, MOST_ROWS, TrafficMix, mix_of
from controlplane.evidence.mix_drift import shifts
from tests.soak import soak
from tuner.workload.trace import workload_of
from tuner.workload.trace_file import load

TOGETHER = 50
"""Requests of a block, which stay as they came."""
SEEDS = soak(20, 100)
TRACES = {
    "azure conversation": ("azure", "AzureLLMInferenceTrace_conv.csv"),
    "azure code": ("azure", "AzureLLMInferenceTrace_code.csv"),
    "mooncake conversation": ("mooncake", "conversation_trace.jsonl"),
}


@cache
def read(path: Path) -> Workload:
    return load(path)


def joined(trace: Workload, blocks: list[int]) -> TrafficMix:
    """Blocks of a trace, one after the other."""
    found, now_ms = [], 0.0
    for block in blocks:
        *here, following = trace.requests[block * TOGETHER : (block + 1) * TOGETHER + 1]
        ahead_ms = now_ms - here[0].timestamp
        found += [one.model_copy(update={"timestamp": ahead_ms + one.timestamp}) for one in here]
        now_ms = ahead_ms + following.timestamp
    return mix_of(workload_of(found, block_size=trace.block_size))


def two_sides(trace: Workload, seed: int, requests: int) -> tuple[TrafficMix, TrafficMix]:
    """The same mix twice: blocks of the whole trace, dealt at random."""
    each = requests // TOGETHER
    dealt = np.random.default_rng(seed).permutation((len(trace.requests) - 1) // TOGETHER)[: 2 * each].tolist()
    return joined(trace, sorted(dealt[:each])), joined(trace, sorted(dealt[each:]))


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.slow
@pytest.mark.soak
def test_an_equal_mix_is_not_told_and_doubled_prompts_are(name: str, request: pytest.FixtureRequest) -> None:
    folder, file = TRACES[name]
    trace = read(request.getfixturevalue(folder) / file)
    told = missed = 0
    for seed in range(SEEDS):
        then, now = (asdict(side) for side in two_sides(trace, seed, 1000))
        told += any(shift.drifted for shift in shifts(then, now, seed).values())
        longer = shifts(then, now | {"prompts": [2 * tokens for tokens in now["prompts"]]}, seed)
        missed += not longer["prompts"].drifted or longer["prompts"].score < 0
    most = SEEDS // 20
    assert told <= most and missed <= most, (told, missed)


def test_a_mix_is_the_same_for_a_long_stretch_and_a_short_one(mooncake: Path) -> None:
    trace = read(mooncake / "conversation_trace.jsonl")
    long, short = (
        mix_of(trace.model_copy(update={"requests": trace.requests[:count]})) for count in (1500, LOOK_BACK + 300)
    )
    assert long.repeated[:300] == short.repeated and long.gaps_s[:300] == short.gaps_s
    assert len(mix_of(trace)) == MOST_ROWS and max(long.repeated) > 0.5 > min(long.repeated)
