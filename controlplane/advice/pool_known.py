"""What a pool tells a forecast of other hardware: its model, by its nodes' own word, and a mean request of it. Pure."""

from collections.abc import Sequence

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.knobs import QUANTIZATION, Quantization
from controlplane.contract.planning.advice import Worksheet
from controlplane.hardware.hardware_rows import PLAIN, Known

_FORMATS = {
    Quantization.NONE: PLAIN,
    Quantization.FP8: "fp8",
    Quantization.INT8: "fp8",
    Quantization.INT4: "int4",
}
_EMBEDDED = "embedded"


def known_of(serving: Sequence[NodeView], sheet: Worksheet) -> Known:
    """By the first node, in order of names, that tells its model's sizes; a mean request, the busiest minute's rate."""
    told = [node for node in sorted(serving, key=lambda one: one.node) if node.effective and node.effective.shape]
    notes: list[str] = []
    model, node_name, weights = None, "", None
    if told:
        node = told[0]
        assert node.effective is not None
        model, node_name = node.effective.shape, node.node
        runs = node.effective.knobs.get(QUANTIZATION)
        weights = _FORMATS.get(Quantization(runs)) if runs in set(Quantization) else None
        if runs == Quantization.INT8:
            notes.append("int8 weights are forecast as fp8's, which are as many bytes")
        if any(other.effective and other.effective.shape != model for other in told):
            notes.append(f"the pool's nodes serve models of several sizes; {node_name}'s is forecast")
        if node.backend == _EMBEDDED:
            notes.append("the embedded engine is in no table: what it would launch is forecast as another engine's")
    requests, peak = sheet.requests_per_s, sheet.at_peak
    prompt, output = (
        None if rate is None or not requests.mean else max(1.0, rate.mean / requests.mean)
        for rate in (sheet.prompt_tokens_per_s, sheet.output_tokens_per_s)
    )
    rate = peak.requests_per_s if peak is not None else requests.mean or None
    if peak is None and rate is not None:
        notes.append("no whole minute was measured: the rate is the mean")
    return Known(
        model=model,
        model_of=node_name,
        weights=weights,
        prompt=prompt,
        output=output,
        cached=sheet.cached_share,
        rate=rate,
        notes=notes,
    )
