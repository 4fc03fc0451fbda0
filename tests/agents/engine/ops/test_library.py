"""Native libraries are built once, and whatever stands in the way is named."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.engine.ops.library import (
    CACHE_VARIABLE,
    COMPILER_VARIABLE,
    MARCH_VARIABLE,
    NativeUnavailable,
    instruction_sets,
    load,
)
from agents.engine.ops.processor_identity import processor_flags

pytestmark = pytest.mark.slow

build = load.__wrapped__  # Not what an earlier test has loaded.
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels"
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    monkeypatch.delenv(COMPILER_VARIABLE, raising=False)
    return folder


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler; install g\+\+"):
        build("elementwise")


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, "false")
    with pytest.raises(NativeUnavailable, match=r"elementwise.cpp does not compile with .*false: it ended"):
        build("elementwise")


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, "no-such-compiler -x")
    with pytest.raises(NativeUnavailable, match="CXX names 'no-such-compiler', which is not installed"):
        build("elementwise")


@needs_compiler
def test_a_cache_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "kernels"))
    with pytest.raises(NativeUnavailable, match=f"no folder for built kernels.*{CACHE_VARIABLE}"):
        build("elementwise")


@needs_compiler
def test_a_cache_that_others_may_write_to(own_cache: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    with pytest.raises(NativeUnavailable, match="may be written by others"):
        build("elementwise")


def test_a_library_that_cannot_be_loaded(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && : > "$2"; shift; done\nexit 0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv(COMPILER_VARIABLE, str(compiler))
    with pytest.raises(NativeUnavailable, match="cannot be built or loaded"):
        build("elementwise")
    assert len(list(own_cache.glob("*.so"))) == 1 and own_cache.stat().st_mode & 0o777 == 0o700


@needs_compiler
def test_of_two_processes_one_builds(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, calls = tmp_path / "compiler", tmp_path / "calls"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo built >> {calls}\nexec g++ "$@" -O0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv(COMPILER_VARIABLE, str(compiler))
    command = [sys.executable, "-c", "from agents.engine.ops.library import load; load('elementwise')"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    messages = sorted(process.communicate()[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert messages[0] == "" and messages[1].startswith("building the kernels of elementwise.cpp")
    assert calls.read_text() == "built\n"


def test_instruction_sets_can_be_held_to_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARCH_VARIABLE, "x86-64-v3")
    assert instruction_sets() <= {"avx2", "fma", "f16c"}
    monkeypatch.setenv(MARCH_VARIABLE, "i486")
    with pytest.raises(NativeUnavailable, match=r"'i486'; it may be native, x86-64-v2"):
        instruction_sets()
    monkeypatch.delenv(MARCH_VARIABLE)
    assert instruction_sets() == processor_flags()
