"""The native kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a process of its own.

Torch takes its memory from the sanitizer's allocator there, so that each tensor has a wall around it. All tests of
operations, kernels and formats pass so, and kernels that were made wrong are found out.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.engine.ops import kept_choices, library, linear_native
from agents.engine.ops.processor_identity import processor_flags

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here"),
    pytest.mark.skipif(library.COMPILER_VARIABLE in os.environ, reason="another compiler is asked for"),
]

ROOT = Path(__file__).parents[4]
ENGINE = Path(__file__).parents[1].relative_to(ROOT)
RUN = """
import sys
from pathlib import Path
import pytest
from agents.engine.ops import library
library.SOURCES = Path(sys.argv[1])
sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""
COMPILER = "g++ -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1"
OPERATIONS = f"{ENGINE}/ops/test_native_ops.py"
ACTIVATIONS = f"{OPERATIONS}::test_activations_are_right_to_a_few_roundings_over_their_whole_range"
KERNELS = f"{ENGINE}/quantization/test_native_choice.py::test_the_kernels_of_this_machine_are_right"
WHOLE = (
    OPERATIONS,
    f"{ENGINE}/quantization/test_native_choice.py",
    f"{ENGINE}/quantization/test_plain.py",
    f"{ENGINE}/quantization/test_formats.py",
    "--deselect",
    f"{ENGINE}/quantization/test_formats.py::test_quality_of_the_bundled_model",
    "--deselect",
    f"{ENGINE}/quantization/test_formats.py::test_text_does_not_depend_on_batch_mates",
)
WRONG = {
    "a write past the end": (
        ("elementwise.cpp", "T *to = out + r * n;", "T *to = out + r * n + 1;"),
        ACTIVATIONS,
        "heap-buffer-overflow",
    ),
    "arithmetic that overflows": (
        ("elementwise.cpp", "team(rows * n, rows, threads)", "team(rows * n + INT64_MAX, rows, threads)"),
        ACTIVATIONS,
        "signed integer overflow",
    ),
    "a mask with an element too many": (
        ("linear_rows.h", "(1u << count) - 1", "(2u << count) - 1"),
        f"{KERNELS}[int8]",
        "ERROR: AddressSanitizer",
    ),
}


def run_sanitized(sources: Path, scratch: Path, *tests: str) -> "subprocess.CompletedProcess[str]":
    """pytest's run of `tests` on the kernels in folder `sources`; built ones and choices stay in `scratch`."""
    found = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if lacking := [name for name in found if not Path(name).is_absolute()]:
        pytest.skip(f"the compiler has no {' or '.join(lacking)}")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=66",  # Python frees not all that it took before it ends.
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
        library.COMPILER_VARIABLE: COMPILER,
        library.CACHE_VARIABLE: str(scratch / "kernels"),
        kept_choices.CACHE_VARIABLE: str(scratch / "choices"),
    }
    command = [sys.executable, "-c", RUN, str(sources), *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_no_kernel_reaches_beyond_its_memory_or_does_what_is_undefined(tmp_path: Path) -> None:
    done = run_sanitized(library.SOURCES, tmp_path, *WHOLE)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    built = {file.name.split("-")[0] for file in (tmp_path / "kernels").glob("*.so")}
    possible = {name for name, sets in linear_native._NEEDED.items() if set(sets) <= processor_flags()}
    assert built == {"attention", "elementwise", *possible}, "is a kernel left out?"


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_kernel_is_found_out(mistake: str, tmp_path: Path) -> None:
    (file, right, wrong), test, said = WRONG[mistake]
    if file == "linear_rows.h" and "avx512_vnni" not in processor_flags():
        pytest.skip("no kernel of this processor has masks")
    sources = tmp_path / "sources"
    shutil.copytree(library.SOURCES, sources)
    text = (sources / file).read_text(encoding="utf-8")
    assert right in text
    (sources / file).write_text(text.replace(right, wrong), encoding="utf-8")
    done = run_sanitized(sources, tmp_path, test)
    assert done.returncode != 0 and said in done.stdout + done.stderr, done.stdout[-2000:] + done.stderr[-4000:]
