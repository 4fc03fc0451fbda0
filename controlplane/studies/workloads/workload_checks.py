"""Whether a workload can be kept: what it packs, unpacked once within bounds, and looked at. Pure.

Guarantee: what is kept is traffic that a worker can replay; however it was packed, looking takes bounded memory.
"""

from itertools import pairwise

from controlplane.contract.bodies.workload import Workload, WorkloadCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_traffic import unpacked

FEWEST_REQUESTS, MOST_REQUESTS = 5, 50_000
LARGEST_BYTES = 8 * 2**20
"""Unpacked; 50,000 requests with some 30 blocks each have about half of it."""
MOST_TOKENS = 2**24
MOST_BLOCK = 2**16
LONGEST_S = 31 * 86400.0


def checked_workload(wanted: WorkloadCreate) -> Workload:
    """What is packed. Raises `BadRequest` that says what is wrong, and the mend."""
    try:
        found = unpacked(wanted.traffic, LARGEST_BYTES)
    except ValueError as error:
        told = str(error).splitlines()[0][:200].removeprefix("traffic: ")
        raise BadRequest(f"traffic: is no packed workload ({told})", field="traffic") from None
    if len(found) != 1:
        raise BadRequest(f"traffic: wants one workload, got {len(found)}", field="traffic")
    if why := _problem(found[0]):
        raise BadRequest(f"traffic: {why}", field="traffic")
    return found[0]


def _problem(workload: Workload) -> str:
    requests = workload.requests
    if not FEWEST_REQUESTS <= len(requests) <= MOST_REQUESTS:
        mend = "; keep a part of it: --requests N" if len(requests) > MOST_REQUESTS else ""
        return f"wants {FEWEST_REQUESTS} to {MOST_REQUESTS:,} requests, got {len(requests):,}{mend}"
    if not 1 <= workload.block_size <= MOST_BLOCK:
        return f"block size {workload.block_size}: wants 1 to {MOST_BLOCK}"
    if any(after.timestamp < before.timestamp for before, after in pairwise(requests)):
        return "requests are not in the order of their arrivals"
    span_s = (requests[-1].timestamp - requests[0].timestamp) / 1000
    if not 0 < span_s <= LONGEST_S:
        return f"lasts {span_s:g} s from the first arrival to the last; wants more than 0 and 31 days at most"
    for place, one in enumerate(requests, 1):
        if max(one.input_length, one.output_length) > MOST_TOKENS:
            return f"request {place}: more than {MOST_TOKENS:,} tokens"
        if len(one.hash_ids) > one.input_length // workload.block_size:
            return f"request {place}: {len(one.hash_ids)} blocks do not fit {one.input_length} tokens"
    return ""
