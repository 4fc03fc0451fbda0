"""A pytest plugin (-p) that lets MKL take this processor for one of Intel's, so that it goes by its instruction sets.

On other makers' processors MKL runs one careful path and ignores MKL_ENABLE_INSTRUCTIONS; the kernels that change with
the number of rows are those of Intel's. What MKL has found out about the maker is kept in two variables, which are
found by name in torch's library and set before anything is computed. Where that cannot be done nothing changes, which
the header of the run says.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import torch

_NAMES = ("mkl_serv_intel_cpu.cached", "mkl_serv_intel_cpu_true.cached")
_UNKNOWN = -1  # What they hold before MKL has looked.


def pytest_report_header() -> str:
    return f"MKL: {pretend()}"


def pretend() -> str:
    """What was done. Raises nothing: without it the tests are right, but see less."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if shutil.which("nm") is None or not library.exists():
        return "as this processor is (no nm or no library of torch's)"
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=False).stdout
    places = [int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(_NAMES)]
    base = _base(library)
    if len(places) != len(_NAMES) or base is None:
        return "as this processor is (its variables were not found)"
    cells = [ctypes.c_int.from_address(base + place) for place in places]
    if any(cell.value != _UNKNOWN for cell in cells):
        return "as this processor is (it has looked already)"
    for cell in cells:
        cell.value = 1
    return "as on an Intel processor"


def _base(library: Path) -> int | None:
    """Where the library's first byte lies in this process."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        parts = line.split()
        if len(parts) == 6 and Path(parts[5]) == library.resolve() and int(parts[2], 16) == 0:
            return int(parts[0].split("-")[0], 16)
    return None
