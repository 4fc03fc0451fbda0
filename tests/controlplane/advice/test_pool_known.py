"""What a pool tells a forecast: its model by a node's own word, a mean request, and what was taken for granted."""

from typing import Any

import pytest

from controlplane.advice.pool_known import known_of
from controlplane.api.body_examples import EXAMPLES
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole, NodeView
from controlplane.contract.planning.advice import AtPeak, Rate, Worksheet

SHAPE = EXAMPLES["HardwareCreate"]["a model by its sizes, with so many always under way"].model_dump()["model"]
SHEET = Worksheet(
    requests=600, measured_s=60, step_s=60, nodes=2, node_hours=1 / 30, cached_share=0.25, waiting_share=None,
    requests_per_s=Rate(mean=10), prompt_tokens_per_s=Rate(mean=5000), output_tokens_per_s=Rate(mean=2000),
    at_peak=AtPeak(times=1, requests_per_s=12, nodes=2, in_flight=30, node_hours_a_day=48, assumes=[]),
)  # fmt: skip


def node(name: str, *, backend: str = "vllm", quantization: str = "none", **shape: Any) -> NodeView:
    """Without `shape` it tells no sizes."""
    effective = EffectiveConfig.model_validate(
        {"revision": 1, "knobs": {"quantization": quantization}, "shape": {**SHAPE, **shape} if shape else None}
    )
    return NodeView(
        node=name,
        pool="chat",
        role=NodeRole.SERVING,
        backend=backend,
        connected=True,
        healthy=True,
        effective=effective,
    )


def test_a_pools_worksheet_is_a_mean_request_and_its_busiest_rate() -> None:
    known = known_of([], SHEET)
    assert (known.prompt, known.output, known.cached, known.rate) == (500, 200, 0.25, 12)
    assert known.model is None and known.weights is None and not known.notes
    idle = known_of([], SHEET.model_copy(update={"requests_per_s": Rate(mean=0.0), "at_peak": None}))
    assert idle.prompt is idle.output is idle.rate is None and not idle.notes


def test_without_a_whole_minute_the_rate_is_the_mean() -> None:
    known = known_of([], SHEET.model_copy(update={"at_peak": None}))
    assert known.rate == 10 and known.notes == ["no whole minute was measured: the rate is the mean"]


def test_the_model_is_that_of_the_first_node_that_tells_it() -> None:
    known = known_of([node("b", layers=8), node("c", layers=8), node("a")], SHEET)
    assert known.model_of == "b" and known.model is not None and known.model.layers == 8 and not known.notes
    mixed = known_of([node("b", layers=8), node("c", layers=9)], SHEET)
    assert mixed.notes == ["the pool's nodes serve models of several sizes; b's is forecast"]


@pytest.mark.parametrize(
    ("quantization", "weights", "noted"),
    [("none", "bf16", 0), ("fp8", "fp8", 0), ("int4", "int4", 0), ("int8", "fp8", 1), ("awq_marlin", None, 0)],
)
def test_weights_are_forecast_in_the_format_that_runs(quantization: str, weights: str | None, noted: int) -> None:
    known = known_of([node("a", quantization=quantization, layers=8)], SHEET)
    assert known.weights == weights and len(known.notes) == noted


def test_of_the_embedded_engine_it_is_said_that_no_table_has_it() -> None:
    (note,) = known_of([node("a", backend="embedded", layers=8)], SHEET).notes
    assert note.startswith("the embedded engine is in no table")
