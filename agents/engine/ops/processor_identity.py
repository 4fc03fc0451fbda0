"""Which processor this is, by what Linux tells of it."""

import hashlib
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@cache
def processor_flags() -> frozenset[str]:
    """Instruction sets of this processor by Linux's names; empty where /proc/cpuinfo does not tell them."""
    return frozenset((_field("flags") or _field("Features")).split())


@cache
def processor_name() -> str:
    """Its model and a digest of its instruction sets: equal for machines on which the same kernels are quickest."""
    model = _field("model name") or _field("CPU part") or "unknown processor"
    numbers = "/".join(_field(name) or "?" for name in ("cpu family", "model", "cache size"))
    digest = hashlib.sha256(" ".join(sorted(processor_flags())).encode()).hexdigest()[:12]
    return f"{model} ({numbers}), instruction sets {digest}"


def _field(name: str) -> str:
    if not _CPUINFO.exists():
        return ""
    for line in _CPUINFO.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
