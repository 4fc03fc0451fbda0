"""Freed memory stays with the process, and is not taken from the kernel page by page again, until it is trimmed."""

import subprocess
import sys

import pytest

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


@pytest.mark.slow
def test_freed_memory_is_used_again() -> None:
    assert faults("settled") < 2 * PAGES
    assert faults("plain") > 100 * PAGES, "this C library keeps what was freed by itself: the setting is of no use here"


TRIMMED = """
import os
from datetime import UTC, datetime
from controlplane.app import allocation

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

allocation.settle()
parts = [b"x" * (1 << 20) for _ in range(200)]
del parts[:-1]  # The last one lies above all that is free.
before = resident()
allocation.trim(datetime.now(UTC))
print(before - resident())
"""


def test_what_lies_between_is_given_back_when_it_is_trimmed() -> None:
    done = subprocess.run([sys.executable, "-c", TRIMMED], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 150 << 20


HELD = """
from controlplane.app import allocation

allocation.settle()
before = allocation.heaps()
parts = [b"x" * (1 << 20) for _ in range(100)]
during = allocation.heaps()
del parts[:-1]
after = allocation.heaps()
print(during.used - before.used, after.used - before.used, after.kept - before.kept)
"""


def test_what_is_in_use_is_told_apart_from_what_is_kept() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], check=True, capture_output=True, text=True)
    in_use, still_in_use, kept = (int(word) >> 20 for word in done.stdout.split())
    assert in_use >= 100 and still_in_use <= 2 and kept >= 98
