"""What a machine is, as its node's labels."""

from pathlib import Path

from agents.host.gpu import Gpus
from agents.host.hardware import hardware_labels, processor_of
from tests.agents.host.fake_nvml import FakeGpu, FakeNvml

CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9654 96-Core Processor
flags\t\t: fpu vme

processor\t: 1
model name\t: AMD EPYC 9654 96-Core Processor
"""


def test_processor_and_gpu_are_labels_that_can_be_selected(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    for name in ("NVIDIA H100 80GB HBM3", b"NVIDIA H100 80GB HBM3"):  # Older bindings of NVML tell bytes.
        nvml = FakeNvml(FakeGpu(name=name), FakeGpu(name=name))
        found = hardware_labels(Gpus(lambda nvml=nvml: nvml), tmp_path)
        assert found == {"processor": "AMD-EPYC-9654-96-Core-Processor", "gpu": "NVIDIA-H100-80GB-HBM3"}


def test_what_is_not_so_of_the_whole_machine_is_no_label(tmp_path: Path) -> None:
    assert hardware_labels(Gpus(lambda: FakeNvml(broken=True)), tmp_path) == {}
    assert hardware_labels(Gpus(lambda: FakeNvml(FakeGpu(), FakeGpu(name="NVIDIA L4"))), tmp_path) == {}
    assert processor_of(CPUINFO + "model name : another\n") == "" == processor_of("Features : fp asimd\n")


def test_the_machine_that_runs_this_says_its_processor_or_none() -> None:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    assert ("processor" in hardware_labels(Gpus(lambda: FakeNvml(broken=True)))) is bool(processor_of(text))
