"""GPUs are measured through a stand-in of NVML's calls; there is none on the machines that run this."""

import logging
from typing import Any

import pytest

from agents.host.gpu import Gpus
from controlplane.contract import metrics
from tests.agents.host.fake_nvml import FakeGpu, FakeNvml

ENGINE = frozenset({7})


def test_the_worst_of_the_engines_gpus_is_told() -> None:
    hot = FakeGpu(clock=1200, reasons=0x40, degrees=91, power_mw=690_000, used=79, pids=(7,))
    nvml = FakeNvml(FakeGpu(pids=(7,)), hot, FakeGpu(clock=100, degrees=99, pids=(8,)))
    found = Gpus(lambda: nvml).sample(ENGINE)
    assert (found[metrics.GPU_CLOCK], found[metrics.GPU_CLOCK_MAX]) == (1200.0, 1980.0)
    assert (found[metrics.GPU_THROTTLE_REASON], found[metrics.GPU_TEMPERATURE]) == (64.0, 91.0)
    assert (found[metrics.GPU_POWER], found[metrics.GPU_POWER_LIMIT]) == (690.0, 700.0)
    assert found[metrics.GPU_MEMORY] == 79 / 80
    assert (found[metrics.GPU_ECC], found[metrics.GPU_XID]) == (0.0, 0.0)


def test_errors_are_told_in_the_window_in_which_they_come() -> None:
    gpu = FakeGpu(ecc=5)
    nvml = FakeNvml(gpu)
    gpus = Gpus(lambda: nvml)
    assert gpus.sample(ENGINE)[metrics.GPU_ECC] == 0.0
    gpu.ecc = 7
    nvml.xids += [31, 79]
    found = gpus.sample(ENGINE)
    assert (found[metrics.GPU_ECC], found[metrics.GPU_XID]) == (2.0, 79.0)
    assert gpus.sample(ENGINE)[metrics.GPU_XID] == 0.0


def test_other_processes_use_is_the_sum_of_their_means() -> None:
    gpu = FakeGpu(samples=[(7, 1, 90), (8, 1, 20), (8, 2, 40), (9, 2, 10)])
    gpus = Gpus(lambda: FakeNvml(gpu))
    assert gpus.sample(ENGINE)[metrics.GPU_OTHER_UTILIZATION] == pytest.approx(0.4)
    assert gpus.sample(ENGINE)[metrics.GPU_OTHER_UTILIZATION] == 0.0


def test_what_a_gpu_does_not_support_is_left_out() -> None:
    found = Gpus(lambda: FakeNvml(FakeGpu(ecc=None, limit_mw=0))).sample(frozenset())
    assert not {metrics.GPU_ECC, metrics.GPU_POWER, metrics.GPU_OTHER_UTILIZATION} & found.keys()
    assert metrics.GPU_CLOCK in found


def no_library() -> Any:
    raise ImportError("No module named 'pynvml'")


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (no_library, "nvidia-ml-py is not installed"),
        (lambda: FakeNvml(FakeGpu(), broken=True), "NVML cannot be used"),
        (FakeNvml, "the machine has none"),
    ],
)
def test_a_missing_gpu_is_said_once(library: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gpus = Gpus(library)
    assert gpus.sample(ENGINE) == {} == gpus.sample(ENGINE)
    assert [said in record.message for record in caplog.records] == [True]
