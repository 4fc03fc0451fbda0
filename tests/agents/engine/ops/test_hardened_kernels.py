"""Built kernels have what the compiler and the linker offer against mistakes, and it works."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.engine.ops import library

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")]

CALL = """
import ctypes, sys
from pathlib import Path
from agents.engine.ops import library
library.SOURCES = Path(sys.argv[1])
wrong = library.load("wrong")
for number in (7, 64):
    wrong.err(ctypes.c_long(number))
    print(number, flush=True)
"""
WRONG = {
    "stack": (  # Eight bytes of room; the compiler does not know how many are written, nor that they are in an array.
        """
        static void fill(volatile char *to, long n) { for (long i = 0; i < n; i++) to[i] = 1; }
        void (*volatile hidden)(volatile char *, long) = fill;
        extern "C" void err(long n) { char room[8]; hidden(room, n); }
        """,
        "stack smashing detected",
    ),
    "copy": (
        """
        #include <cstring>
        char source[99];
        char room[8];
        extern "C" char err(long n) { memcpy(room, source, n); return room[1]; }
        """,
        "buffer overflow detected",
    ),
    "vector": (
        """
        #include <vector>
        extern "C" int err(long n) { std::vector<int> numbers(8); return numbers[n]; }
        """,
        "Assertion '__n < this->size()' failed",
    ),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(library.CACHE_VARIABLE, str(tmp_path / "kernels"))
    monkeypatch.delenv(library.COMPILER_VARIABLE, raising=False)
    return tmp_path / "kernels"


def test_what_is_bound_cannot_be_written_and_no_stack_is_run(own_cache: Path) -> None:
    library.load.__wrapped__("elementwise")
    (built,) = own_cache.glob("*.so")
    told = subprocess.run(["readelf", "-lWd", built], capture_output=True, text=True, check=True).stdout
    lines = {words[0]: words for words in map(str.split, told.splitlines()) if words}
    assert "BIND_NOW" in told and "GNU_RELRO" in lines
    assert lines["GNU_STACK"][-2] == "RW"


@pytest.mark.parametrize("mistake", WRONG)
def test_a_kernel_that_errs_ends_at_once(mistake: str, tmp_path: Path) -> None:
    source, said = WRONG[mistake]
    (tmp_path / "wrong.cpp").write_text(source, encoding="utf-8")
    command = [sys.executable, "-c", CALL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["7"], done.stderr  # What stays within bounds returns.
    assert done.returncode == -signal.SIGABRT and said in done.stderr, done.stderr
