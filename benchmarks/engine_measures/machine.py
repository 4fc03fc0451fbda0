"""What the figures were measured on."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.engine_measures.session import Settings
from benchmarks.engine_rivals.protocol import ROOT

_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8")


def describe(settings: Settings) -> str:
    """Command, machine, versions, seed, and how busy the machine was before."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "numpy"))
    return "\n".join(
        [
            describe_machine(settings.device),
            f"- Python {platform.python_version()}, {versions}, commit {commit()}",
            f"- seed {settings.seed}, {settings.rounds} rounds, {settings.threads} threads for every contestant, all "
            f"bound to cores {settings.cores}" + ("; QUICK: the figures mean nothing" if settings.quick else ""),
        ]
    )


def describe_machine(device: str = "cpu") -> str:
    """device: cpu, or cuda where the first GPU is told too."""
    cpu = _cpu()
    flags = [name for name in _FEATURES if name in cpu.get("flags", "").split()]
    return (
        f"- CPU: {cpu.get('model name', platform.processor())} ({os.cpu_count()} cores; {', '.join(flags)}), "
        f"{platform.system()} {platform.machine()}; load average before: {os.getloadavg()[0]:.2f}"
    ) + ("" if device == "cpu" else f"\n- GPU: {_gpu()}")


def _gpu() -> str:
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}"


def _cpu() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"
