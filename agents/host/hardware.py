"""What the machine under an engine is, as labels of its node.

Guarantee: a label is there only where it is so for the whole machine: processors or GPUs of two kinds have none.
"""

from pathlib import Path

from agents.host.gpu import Gpus
from controlplane.contract.reports.node_labels import GPU, PROCESSOR, value_of


def hardware_labels(gpus: Gpus, proc: Path = Path("/proc")) -> dict[str, str]:
    """`processor` and `gpu`, each where the machine tells it. Takes as long as the first call of NVML."""
    try:
        processor = processor_of((proc / "cpuinfo").read_text(errors="replace"))
    except OSError:
        processor = ""
    found = {PROCESSOR: value_of(processor), GPU: value_of(gpus.name())}
    return {name: value for name, value in found.items() if value}


def processor_of(cpuinfo: str) -> str:
    """The model's name; empty where the text has none (ARM), or several."""
    parts = [line.partition(":") for line in cpuinfo.splitlines()]
    names = {value.strip() for name, _, value in parts if name.strip() == "model name"}
    return names.pop() if len(names) == 1 else ""
