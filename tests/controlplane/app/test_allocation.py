"""Freed memory stays with the process: it is not taken from the kernel page by page again."""

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from controlplane.app import allocation

if sys.argv[1] == "settled":
    assert allocation.settle()
size, times = 4 << 20, 200
[np.ones(size, np.uint8) for _ in range(3)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(times):
    [np.ones(size, np.uint8) for _ in range(3)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 1024
"""Of one allocation."""


def faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], check=True, capture_output=True, text=True)
    return int(done.stdout)


def test_freed_memory_is_used_again() -> None:
    assert faults("settled") < 2 * PAGES
    assert faults("plain") > 100 * PAGES, "this C library keeps what was freed by itself: the setting is of no use here"
