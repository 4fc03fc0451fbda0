"""Whether compute or memory bandwidth takes a pool's time: by its engines' own estimate of FLOPs and bytes. Pure.

Two ways, each where it can be had. Against the nodes' GPU, by its maker's figures: what FLOPs and bytes take at full
rate, which is a lower bound. And by the time of forward passes, window by window, fitted as what goes with FLOPs and
what goes with bytes; each step reads the weights and launches the same kernels, so that the two cannot be told apart.
"""

import numpy as np

from controlplane.advice.pool_figures import PoolFigures
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.knobs import QUANTIZATION, Quantization
from controlplane.contract.planning.advice import AtFullRate, Resource, Roofline, TimeShare
from controlplane.contract.reports.node_labels import GPU
from controlplane.contract.share_text import share_text
from controlplane.evidence.two_costs import first_share
from controlplane.hardware.accelerators import ACCELERATORS

GPUS = {
    "NVIDIA-A100-SXM4-80GB": "a100",
    "NVIDIA-H100-80GB-HBM3": "h100",
    "NVIDIA-H200": "h200",
    "NVIDIA-B200": "b200",
    "NVIDIA-GB200": "gb200",
    "NVIDIA-B300-SXM6-AC": "b300",
}
"""NVML's names of those whose figures are known, as values of the label `gpu`; PCIe and NVL cards are others."""
_EIGHT_BITS = {Quantization.FP8, Quantization.INT8}
EMBEDDED = "embedded"
SEED = 0


def roofline(figures: PoolFigures, host_share: float | None) -> Roofline | None:
    """host_share: of steps' time, what is outside of the forward pass. None where nobody counts FLOPs and bytes."""
    flops, moved = figures.flops, figures.moved
    if not flops or not moved or figures.node_time_s <= 0:
        return None
    flops_per_s, bytes_per_s = flops / figures.node_time_s, moved / figures.node_time_s
    full = _at_full_rate(figures, flops_per_s, bytes_per_s)
    compute = _fitted(figures, host_share)
    bandwidth = None if compute is None or host_share is None else _rest(compute, 1 - host_share)
    binds = _binds(full, compute, bandwidth)
    return Roofline(
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        flops_per_byte=flops / moved,
        at_full_rate=full,
        compute=compute,
        bandwidth=bandwidth,
        binds=binds,
        says=_says(flops / moved, full, compute, bandwidth, binds),
    )


def accelerator_of(serving: list[NodeView]) -> str | None:
    """The one that all of them tell."""
    told = {GPUS.get(node.labels.get(GPU, "")) for node in serving}
    return told.pop() if len(told) == 1 else None


def _at_full_rate(figures: PoolFigures, flops_per_s: float, bytes_per_s: float) -> AtFullRate | None:
    name = accelerator_of(list(figures.serving))
    if name is None:
        return None
    formats = {node.effective.knobs.get(QUANTIZATION) for node in figures.serving if node.effective}
    device = ACCELERATORS[name]
    most = device.flops_of(8 if formats and formats <= _EIGHT_BITS else 16)
    return AtFullRate(
        accelerator=name,
        flops_per_byte=most / device.bandwidth,
        compute=flops_per_s / most,
        bandwidth=bytes_per_s / device.bandwidth,
    )


def _fitted(figures: PoolFigures, host_share: float | None) -> TimeShare | None:
    """Only where every node times its forward passes: FLOPs of others would be in the sums, and not their seconds."""
    if host_share is None or any(node.backend != EMBEDDED for node in figures.serving) or not figures.forwards:
        return None
    found = first_share(np.array(figures.forwards, dtype=float), SEED)
    if found is None:
        return None
    forward = 1 - host_share
    return TimeShare(share=found.share * forward, low=found.low * forward, high=found.high * forward)


def _rest(compute: TimeShare, forward: float) -> TimeShare:
    return TimeShare(share=forward - compute.share, low=forward - compute.high, high=forward - compute.low)


def _binds(full: AtFullRate | None, compute: TimeShare | None, bandwidth: TimeShare | None) -> Resource | None:
    """By what was measured, where that tells them apart; else by the accelerator's figures."""
    if compute is not None and bandwidth is not None:
        if compute.low > bandwidth.high:
            return Resource.COMPUTE
        return Resource.BANDWIDTH if bandwidth.low > compute.high else None
    if full is None:
        return None
    return Resource.COMPUTE if full.compute > full.bandwidth else Resource.BANDWIDTH


def _says(
    intensity: float,
    full: AtFullRate | None,
    compute: TimeShare | None,
    bandwidth: TimeShare | None,
    binds: Resource | None,
) -> str:
    parts = [f"steps did {intensity:.3g} FLOPs for each byte read or written"]
    if full is not None:
        parts.append(
            f"at the full rates of {full.accelerator}, {full.flops_per_byte:.3g} FLOPs a byte, FLOPs would take "
            f"{share_text(full.compute, 1)} of the nodes' time and bytes {share_text(full.bandwidth, 1)}"
        )
    if compute is not None and bandwidth is not None:
        parts.append(
            f"of the steps' time {_range(compute)} went with FLOPs and {_range(bandwidth)} with bytes read or launches"
        )
    elif full is None:
        parts.append(
            "which of the two takes the time is not known without the nodes' GPU or the time of forward passes"
        )
    if binds is Resource.COMPUTE:
        parts.append("compute binds more than memory bandwidth")
    elif binds is Resource.BANDWIDTH:
        both = "" if compute is None else ", or what each step launches,"
        parts.append(f"memory bandwidth{both} binds more than compute")
    elif compute is not None:
        parts.append(
            "which of the two binds cannot be told: they are alike, or came in the same proportion all the time"
        )
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}."


def _range(one: TimeShare) -> str:
    return f"{share_text(one.share, 1)} ({share_text(one.low)} to {share_text(one.high)})"
