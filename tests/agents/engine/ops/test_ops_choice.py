"""Native kernels run where they are right; where they do not, the engine says why."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.ops import ops_choice
from agents.engine.ops.library import NativeUnavailable
from agents.engine.ops.native_ops import NativeOps
from agents.engine.ops.ops_choice import argmax_rows, choose_ops
from agents.engine.ops.torch_ops import TorchOps
from agents.engine.options import EngineOptions
from controlplane.contract.errors import BadRequest

CPU = torch.device("cpu")
decide = choose_ops.__wrapped__  # Not what an earlier test has chosen.


@pytest.fixture
def native() -> NativeOps:
    try:
        return ops_choice.native_ops()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_native_is_chosen_where_it_is_right(native: NativeOps, dtype: torch.dtype) -> None:
    for kernels in ("auto", "native"):
        chosen = decide(CPU, dtype, kernels)
        assert chosen.ops is native and chosen.report == f"native ({native.vector_set})"


def test_torch_is_chosen_where_it_is_asked_for() -> None:
    chosen = decide(CPU, torch.float32, "torch")
    assert isinstance(chosen.ops, TorchOps) and chosen.report == "torch: asked for"


@pytest.mark.parametrize(
    "device,dtype,reason",
    [("cuda", torch.float32, "the model is on cuda"), ("cpu", torch.float64, "know no torch.float64")],
)
def test_what_the_kernels_are_not_for(device: str, dtype: torch.dtype, reason: str) -> None:
    chosen = decide(torch.device(device), dtype, "auto")
    assert isinstance(chosen.ops, TorchOps) and reason in chosen.report
    with pytest.raises(BadRequest, match=reason) as refused:
        decide(torch.device(device), dtype, "native")
    assert refused.value.detail["field"] == "kernels"


def test_wrong_kernels_are_not_used(
    native: NativeOps, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "gate", lambda rows, activation: NativeOps.gate(native, rows * 1.01, activation))
    with caplog.at_level(logging.WARNING):
        chosen = decide(CPU, torch.float32, "auto")
    assert isinstance(chosen.ops, TorchOps)
    assert "the kernels built here are wrong" in chosen.report and "gate, silu" in chosen.report
    assert "attend" not in chosen.report
    assert [record.getMessage() for record in caplog.records] == [
        f"the engine runs on plain torch operations: {chosen.report.removeprefix('torch: ')}"
    ]


@pytest.mark.slow
def test_an_engine_without_a_compiler_runs_on_torch_and_says_so_once(model_dir: Path, tmp_path: Path) -> None:
    script = (
        "import logging, sys; logging.basicConfig(level=logging.WARNING)\n"
        "from pathlib import Path\n"
        "from agents.engine.core.effective_config import read_back\n"
        "from agents.engine.core.event_log import EventLog\n"
        "from agents.engine.options import EngineOptions\n"
        "from agents.engine.core.step import StepEngine\n"
        "for _ in range(2): engine = StepEngine(EngineOptions(Path(sys.argv[1])), EventLog())\n"
        "print(engine.runner.decoder.ops.name, '|', read_back(engine).capabilities['kernels'])\n"
    )
    environment = {**os.environ, "CXX": "false", "TAILWRIGHT_KERNEL_CACHE": str(tmp_path / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(model_dir)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("torch | torch: ") and "does not compile with" in done.stdout
    assert done.stderr.count("the engine runs on plain torch operations") == 1


@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_an_engine_runs_what_it_reports(model_dir: Path, native: NativeOps, kernels: str) -> None:
    engine = StepEngine(EngineOptions(model_dir, kernels=kernels), EventLog())
    assert engine.runner.decoder.ops.name == kernels == engine.kernels.report.split(" ")[0].rstrip(":")


def test_unknown_kernels_are_refused(model_dir: Path) -> None:
    with pytest.raises(ValidationError, match="kernels"):
        EngineOptions(model_dir, kernels="fast")


def test_the_greedy_choice_is_the_first_of_the_largest(native: NativeOps) -> None:
    decide(CPU, torch.float32, "auto")
    logits = torch.randn(5, 3000, generator=torch.Generator().manual_seed(0)).mul(4).round()
    wanted = [row.index(max(row)) for row in logits.tolist()]
    assert argmax_rows(logits) == wanted
    assert argmax_rows(logits.bfloat16()) == wanted
    assert argmax_rows(logits.double()) == wanted  # Not a format of the kernels.
