"""Traffic as it is kept and sent: packed. Pure.

Block hashes become small numbers, told as differences, and the whole is compressed. That keeps who shares a prefix with
whom, which is all that a replay makes of them.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.mistake_text import mistake_text, place_of
from controlplane.contract.planning.packed_json import packed_json, unpacked_json

LARGEST_BYTES = 2**28
"""What packed traffic of our own may become."""


def packed(workloads: Sequence[Workload]) -> str:
    """Base64 of compressed JSON. Equal blocks have equal numbers in all of them."""
    numbers: dict[int, int] = {}
    told = []
    for workload in workloads:
        rows = []
        for one in workload.requests:
            ids = [numbers.setdefault(identity, len(numbers)) for identity in one.hash_ids]
            steps = [after - before for before, after in zip([0, *ids], ids, strict=False)]
            rows.append([one.timestamp, one.input_length, one.output_length, steps])
        told.append({"about": workload.model_dump(mode="json", exclude={"requests"}), "requests": rows})
    return packed_json(told)


def unpacked(text: str, largest_bytes: int = LARGEST_BYTES) -> list[Workload]:
    """Raises ValueError for what was not packed so, or is larger when it is unpacked."""
    try:
        return [_workload(one) for one in unpacked_json(text, largest_bytes)]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"traffic: {'.'.join(place_of(first))}: {mistake_text(first)}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"traffic: {error}") from error


def _workload(told: dict[str, Any]) -> Workload:
    requests = []
    for timestamp, input_length, output_length, steps in told["requests"]:
        ids, last = [], 0
        for step in steps:
            last += step
            ids.append(last)
        requests.append(
            WorkloadRequest(timestamp=timestamp, input_length=input_length, output_length=output_length, hash_ids=ids)
        )
    return Workload.model_validate({**told["about"], "requests": requests})
