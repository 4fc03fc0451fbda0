"""The engine's promises under four settings of instruction sets, each in a process of its own.

A promise about bits that holds by how one processor's libraries happen to be made is none. torch, oneDNN, MKL and our
own kernels are each held to a level, as a lesser processor would hold them. Quick: the bits, in plain torch, in every
run of the tests. Whole (`make test-isa`): all tests of operations, kernels, formats and greedy equality, native kernels
built for the level.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.engine.ops.kept_choices import CACHE_VARIABLE
from agents.engine.ops.library import MARCH_VARIABLE, MARCHES
from agents.engine.ops.processor_identity import processor_flags

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent.relative_to(ROOT)
LEVELS = {
    "SSE 4.2": ("default", "SSE41", "SSE4_2", "x86-64-v2"),
    "AVX2": ("avx2", "AVX2", "AVX2", "x86-64-v3"),
    "AVX512": ("avx512", "AVX512_CORE", "AVX512", "x86-64-v4"),
    "all of this processor": None,
}
QUICK = """
import torch
from tests.agents.engine.mkl_as_on_intel import pretend
print("MKL", pretend())
torch.set_num_threads(1)
from agents.engine.ops.torch_ops import TorchOps
from agents.engine.quantization.plain_choice import build
from agents.engine.quantization.row_bits import rows_are_their_own
from tests.agents.engine.ops.ops_conformance import SHAPES, OpsBitStability, draw
with torch.inference_mode():
    for shape in SHAPES:
        OpsBitStability.compare_pieces(TorchOps(), shape, 300, (1, 1, 2, 3, 7, 31, 64), seed=5)
    for size in ((130, 640), (96, 1500)):
        layer = build(draw(*size), None, "torch")
        print(size, layer.kernel)
        assert rows_are_their_own(layer, size, torch.float32)
"""
WHOLE = (
    f"{HERE}/model",
    f"{HERE}/ops",
    f"{HERE}/quantization",
    f"{HERE}/test_greedy_equality.py",
    "--deselect",
    f"{HERE}/quantization/test_formats.py::test_quality_of_the_bundled_model",
)


def run_under(level: str, arguments: tuple[str, ...], **more: str) -> None:
    """Run Python in a child under a level; its output is the failure's message."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    if (setting := LEVELS[level]) is not None:
        if lacking := MARCHES[setting[3]] - processor_flags():
            pytest.skip(f"this processor lacks {', '.join(sorted(lacking))}")
        aten, onednn, mkl, march = setting
        environment |= {
            "ATEN_CPU_CAPABILITY": aten,
            "ONEDNN_MAX_CPU_ISA": onednn,
            "MKL_ENABLE_INSTRUCTIONS": mkl,
            MARCH_VARIABLE: march,
        }
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("level", LEVELS)
def test_bits_of_plain_torch(level: str, tmp_path: Path) -> None:
    run_under(level, ("-c", QUICK), **{CACHE_VARIABLE: str(tmp_path)})


@pytest.mark.isa
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("level", LEVELS)
def test_operations_kernels_formats_and_text(level: str) -> None:
    run_under(level, ("-m", "pytest", "-q", "-p", "tests.agents.engine.mkl_as_on_intel", *WHOLE))
