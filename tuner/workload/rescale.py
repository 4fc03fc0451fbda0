"""Fits a workload to another node: its token limits, its capacity, its trial time. Pure.

Guarantee: order, burstiness (how long the gaps are) and prefix sharing survive; what is cut or scaled is by one factor
for all.
"""

from itertools import accumulate, pairwise
from random import Random

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from tuner.workload.trace import workload_of


def _rebuilt(workload: Workload, requests: list[WorkloadRequest]) -> Workload:
    return workload_of(
        requests, pool=workload.pool, start=workload.start, block_size=workload.block_size, nodes=workload.nodes
    )


def scale_rate(workload: Workload, factor: float) -> Workload:
    """`factor` times as many requests per second: every gap divided by it."""
    moved = [request.model_copy(update={"timestamp": request.timestamp / factor}) for request in workload.requests]
    return _rebuilt(workload, moved)


def shuffle_gaps(workload: Workload, seed: int) -> Workload:
    """The same requests in their order, the gaps between arrivals in another: equally bursty, at other moments."""
    times = [request.timestamp for request in workload.requests]
    gaps = [after - before for before, after in pairwise(times)]
    Random(seed).shuffle(gaps)
    moved = [
        request.model_copy(update={"timestamp": timestamp})
        for request, timestamp in zip(
            workload.requests, accumulate(gaps, initial=times[0] if times else 0.0), strict=False
        )
    ]
    return _rebuilt(workload, moved)


def scale_lengths(workload: Workload, *, max_input: int, max_output: int, max_total: int | None = None) -> Workload:
    """Lengths scaled so that the longest fits; nothing is scaled up. Prefix ids are thinned by the same factor.

    A block of the result stands for as many blocks of the original as the factor says, so equal prefixes stay equal.
    """
    longest_in = max((request.input_length for request in workload.requests), default=1)
    longest_out = max((request.output_length for request in workload.requests), default=1)
    inputs, outputs = min(1.0, max_input / longest_in), min(1.0, max_output / max(1, longest_out))

    def scaled(request: WorkloadRequest) -> WorkloadRequest:
        output_length = max(min(1, request.output_length), int(request.output_length * outputs))
        input_length = max(1, int(request.input_length * inputs))
        if max_total is not None:
            input_length = max(1, min(input_length, max_total - output_length))
        blocks = min(input_length // workload.block_size, len(request.hash_ids))
        # The id of a thinned block is that of the last block it covers, which under chaining names the whole prefix.
        last = [min(len(request.hash_ids), int((block + 1) / inputs)) - 1 for block in range(blocks)]
        ids = [request.hash_ids[place] for place in last]
        update = {"input_length": input_length, "output_length": output_length, "hash_ids": ids}
        return request.model_copy(update=update)

    return _rebuilt(workload, [scaled(request) for request in workload.requests])


def cut(workload: Workload, first: int, last: int) -> Workload:
    """Requests `first` up to `last` (excluded), the clock set to 0 at the first arrival."""
    chosen = workload.requests[first:last]
    begin = chosen[0].timestamp if chosen else 0.0
    moved = [request.model_copy(update={"timestamp": request.timestamp - begin}) for request in chosen]
    return _rebuilt(workload, moved)
