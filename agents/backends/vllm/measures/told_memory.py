"""A vLLM server's memory, out of what its plugin tells and what its GET /metrics does, and its model's sizes. Pure.

Guarantee: a figure that is no figure costs no other; what neither tells is not told. Where both tell, the plugin's
counts: it is what the engine holds, the metric is what was asked for.
"""

from typing import Any

from pydantic import ValidationError

from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.model_shape import ModelShape, shape_of
from controlplane.contract.reports.node_memory import NodeMemory


def told_memory(plugin: Any, cache: NodeMemory | None, runs: str) -> NodeMemory | None:
    """`plugin`: `memory` of effective.json; `cache`: by the metric; `runs`: the weight format. None: neither tells."""
    said = plugin if isinstance(plugin, dict) else {}
    said = {**said, "weights_bytes_by_format": {runs: said.get("weights_bytes")}}
    good = {name: value for name in NodeMemory.model_fields if (value := _figure(name, said.get(name))) is not None}
    told = {**({} if cache is None else cache.model_dump(exclude_none=True)), **good}
    return NodeMemory.model_validate(told) if told else None


def told_shape(sizes: Any) -> ModelShape | None:
    """`sizes` of effective.json. None: not told, or of a model whose steps are made of something else."""
    try:
        return shape_of(sizes) if isinstance(sizes, dict) and sizes else None
    except (BadRequest, ValidationError):
        return None


def _figure(name: str, value: Any) -> Any:
    try:
        return getattr(NodeMemory.model_validate({name: value}, strict=True), name)
    except ValidationError:
        return None
