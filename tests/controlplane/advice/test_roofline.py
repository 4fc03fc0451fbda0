"""Compute against memory bandwidth: against a GPU's figures, by the time of forward passes, or not told."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from controlplane.advice.roofline import GPUS, roofline
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.planning.advice import Resource, Roofline
from controlplane.hardware.accelerators import ACCELERATORS
from tests.controlplane.advice.advised_pool import BUSY, figures, node

H100 = "NVIDIA-H100-80GB-HBM3"


def on(gpu: str, backend: str = "vllm", **knobs: Any) -> NodeView:
    return node(backend=backend, knobs=knobs).model_copy(update={"labels": {"gpu": gpu}})


def of(host_share: float | None = 0.2, **changed: Any) -> Roofline:
    found = roofline(figures(**changed), host_share)
    assert found is not None
    return found


def forwards(of_flops: float, of_bytes: float, seed: int = 1) -> Sequence[tuple[float, float, float]]:
    """Windows with as much of each as comes, at these costs."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(120):
        flops, moved = chance.uniform(1, 4), chance.uniform(1, 4)
        seconds = (of_flops * flops + of_bytes * moved) * chance.lognormal(0, 0.02)
        made.append((float(seconds), flops * 1e12, moved * 1e10))
    return made


def test_nobody_counts_and_nothing_is_told() -> None:
    assert roofline(figures(flops=None), 0.2) is None and roofline(figures(moved=None), 0.2) is None


def test_rates_are_of_one_gpu_over_the_nodes_time() -> None:
    found = of()
    assert (found.flops_per_s, found.bytes_per_s) == (6e15 / 1200, 2.4e14 / 1200)
    assert found.flops_per_byte == 25 and found.compute is None and found.at_full_rate is None
    assert "is not known without the nodes' GPU" in found.says and found.binds is None


def test_against_the_nodes_gpu_the_larger_share_of_its_full_rate_binds() -> None:
    found = of(None, serving=[on(H100)])
    full = found.at_full_rate
    assert full is not None and full.accelerator == "h100" and full.flops_per_byte == pytest.approx(989 / 3.35)
    assert full.compute == pytest.approx(6e15 / 1200 / 989e12) and full.bandwidth == pytest.approx(2e11 / 3.35e12)
    assert found.binds is Resource.BANDWIDTH and "bytes 6.0 %; memory bandwidth binds more" in found.says
    assert of(None, serving=[on(H100)], flops=6e17).binds is Resource.COMPUTE


def test_products_of_eight_bits_have_a_rate_of_their_own() -> None:
    full = of(serving=[on(H100, quantization="fp8")]).at_full_rate
    assert full is not None and full.flops_per_byte == pytest.approx(1979 / 3.35)


def test_gpus_of_two_kinds_and_cards_with_other_figures_are_held_against_nothing() -> None:
    for serving in ([on(H100), on("NVIDIA-H200")], [on("NVIDIA-H100-PCIe")], [on(H100), node()]):
        assert of(serving=serving).at_full_rate is None
    assert set(GPUS.values()) == set(ACCELERATORS)


@pytest.mark.parametrize(("costs", "binds"), [((0.8, 0.1), Resource.COMPUTE), ((0.1, 0.8), Resource.BANDWIDTH)])
def test_forward_passes_tell_what_their_time_went_with(costs: tuple[float, float], binds: Resource) -> None:
    found = of(forwards=forwards(*costs))
    assert found.compute is not None and found.bandwidth is not None and found.binds is binds
    assert found.compute.share == pytest.approx(0.8 * costs[0] / sum(costs), abs=0.03)
    assert found.compute.share + found.bandwidth.share == pytest.approx(0.8), "the rest is the host's"
    assert found.bandwidth.low <= found.bandwidth.share <= found.bandwidth.high
    assert f"{binds.value}" in found.says.rpartition(";")[2]


def test_steps_that_are_all_alike_do_not_tell_and_that_is_said() -> None:
    alike = [(seconds, 2e12, 1e10) for seconds, _, _ in forwards(0.8, 0.1)]
    found = of(forwards=alike)
    assert found.binds is None and "cannot be told" in found.says
    assert found.compute is not None and found.compute.low == 0 and found.compute.high == pytest.approx(0.8)


def test_what_was_measured_goes_before_the_makers_figures() -> None:
    found = of(serving=[on(H100, "embedded")], forwards=forwards(0.8, 0.1))
    assert found.at_full_rate is not None and found.at_full_rate.bandwidth > found.at_full_rate.compute
    assert found.binds is Resource.COMPUTE


def test_forward_passes_of_a_part_of_the_nodes_fit_nothing() -> None:
    assert of(serving=[node(), node(backend="vllm")], forwards=forwards(0.8, 0.1)).compute is None
    assert of(forwards=forwards(0.8, 0.1)[:20]).compute is None and of(None, forwards=forwards(1, 1)).compute is None
    assert BUSY.forwards == ()
