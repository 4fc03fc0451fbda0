"""A traffic's mix, as it is kept to be compared: of each request the time since the one before, its lengths, and how
much of its prompt was seen just before. Pure.

Guarantee: two stretches of the same traffic are alike whatever their lengths: a block counts as repeated where one of
the `LOOK_BACK` requests before had it, and the first requests, which have fewer before them, are no part of the mix.
"""

from dataclasses import dataclass
from itertools import pairwise

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.packed_json import packed_json, unpacked_json

LOOK_BACK = 100
MOST_ROWS = 2000
LONGEST_MIX = 80_000
"""Characters of a packed mix, beside a study's traffic in one body of the API."""
_LARGEST_BYTES = 2**20


@dataclass(frozen=True)
class TrafficMix:
    """Equally long lists, in order of arrival. gaps_s: seconds between arrivals at one of the pool's nodes, on average;
    prompts, answers: tokens; repeated: share of a prompt's tokens."""

    gaps_s: list[float]
    prompts: list[float]
    answers: list[float]
    repeated: list[float]

    def __len__(self) -> int:
        return len(self.prompts)


def mix_of(workload: Workload, *, nodes: int | None = None) -> TrafficMix:
    """Of its newest requests. `nodes`: that shared it, where the workload does not tell."""
    requests = workload.requests[-(MOST_ROWS + LOOK_BACK) :]
    shared_by = max(1, nodes or workload.nodes)
    last: dict[int, int] = {}
    repeated = []
    for place, request in enumerate(requests):
        known = sum(place - last[one] <= LOOK_BACK for one in request.hash_ids if one in last)
        repeated.append(min(1.0, round(known * workload.block_size / request.input_length, 3)))
        last |= dict.fromkeys(request.hash_ids, place)
    gaps = [(after.timestamp - before.timestamp) / 1000.0 for before, after in pairwise(requests)]
    return TrafficMix(
        [round(gap * shared_by, 4) for gap in gaps][LOOK_BACK - 1 :],
        [float(one.input_length) for one in requests[LOOK_BACK:]],
        [float(one.output_length) for one in requests[LOOK_BACK:]],
        repeated[LOOK_BACK:],
    )


def packed_mix(mix: TrafficMix) -> str:
    """Base64 of compressed JSON; empty for none, and for what is too large to be kept."""
    text = packed_json([mix.gaps_s, mix.prompts, mix.answers, mix.repeated])
    return text if mix.prompts and len(text) <= LONGEST_MIX else ""


def unpacked_mix(text: str) -> TrafficMix | None:
    """None for what is empty, or was not packed so."""
    try:
        told = unpacked_json(text, _LARGEST_BYTES)
        gaps, prompts, answers, repeated = ([float(one) for one in part] for part in told)
    except (ValueError, TypeError):
        return None
    lengths = {len(gaps), len(prompts), len(answers), len(repeated)}
    return TrafficMix(gaps, prompts, answers, repeated) if len(lengths) == 1 and prompts else None
