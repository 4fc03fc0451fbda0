"""A workload as arrivals at the replicas of a pool: scaled, dealt out, with prompts that share what they shared.

Guarantee: two prompts agree in their first blocks exactly where their hash ids do, whatever they are scaled by; equal
seeds deal equally. Requests are dealt by chance: what balancer a pool has is not known, and one that looks at queues or
prefixes does better.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from tuner.twin.simulated_engine import Arrival
from tuner.twin.token_runs import TokenRuns
from tuner.workload.trace import hash_id

_OWN_TAIL = -(1 << 40)
"""Tokens below this are of one prompt's tail alone; those of outputs lie between, hash ids are not negative."""


@dataclass(frozen=True)
class Scale:
    """Factors: of requests a second, of prompt tokens (their shared prefixes too), of output tokens."""

    load: float = 1.0
    prompts: float = 1.0
    outputs: float = 1.0


def dealt(workload: Workload, replicas: int, scale: Scale, seed: int) -> list[tuple[list[int], list[Arrival]]]:
    """Of each replica: which requests of the workload it gets, and those as arrivals."""
    found: list[tuple[list[int], list[Arrival]]] = [([], []) for _ in range(replicas)]
    for number, request in enumerate(workload.requests):
        places, arrivals = found[hash_id(seed, "dealt", number) % replicas if replicas > 1 else 0]
        places.append(number)
        arrivals.append(arrival_of(request, number, workload.block_size, scale, seed))
    return found


def arrival_times(workload: Workload, scale: Scale) -> NDArray[np.float64]:
    """When each request comes, seconds of the span."""
    return np.array([_at_s(request, scale) for request in workload.requests])


def _at_s(request: WorkloadRequest, scale: Scale) -> float:
    return request.timestamp / 1000.0 / scale.load


def arrival_of(request: WorkloadRequest, number: int, block_size: int, scale: Scale, seed: int) -> Arrival:
    """number: its place in the workload."""
    return Arrival(
        _at_s(request, scale),
        _prompt(request, block_size, scale.prompts, number),
        max(1, round(request.output_length * scale.outputs)),
        seed=hash_id(seed, number) if seed else number,
    )


def _prompt(request: WorkloadRequest, block_size: int, factor: float, number: int) -> Callable[[], TokenRuns]:
    """Made when it is wanted."""
    length, size = max(1, round(request.input_length * factor)), max(1, round(block_size * factor))

    def made() -> TokenRuns:
        tokens = TokenRuns.even(request.hash_ids[: length // size], size)
        tokens.extend(_OWN_TAIL - number, length - len(tokens))
        return tokens

    return made
