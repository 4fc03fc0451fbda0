"""Every tensor of a forward pass lives on the model's device, and what a device or format cannot do is named."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agents.engine.model.config import read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.device import check_dtype, choose_device
from agents.engine.model.runner import Rows, Runner
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def _batch(groups: int) -> list[Rows]:
    """A decode past the window, a prompt's piece, and a row count that wants padding rows."""
    own, others = (
        [list(range(first + 20 * group, first + 20 * group + 20)) for group in range(groups)] for first in (1, 101)
    )
    return [Rows([5], 90, own, 1), Rows(list(range(1, 20)), 30, others, 2)]


class _OneDevice(TorchDispatchMode):
    """Refuses every operation with an operand elsewhere, also those that a real device would let through."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            assert not isinstance(value, torch.Tensor) or value.device == self.device, f"{function} on {value.device}"
        return result


@pytest.mark.parametrize("shape", ["grouped_tied", "gemma3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_tensor_is_left_on_another_device(model_dirs: dict[str, Path], shape: str, dtype: torch.dtype) -> None:
    config = read_model_config(model_dirs[shape])
    meta = torch.device("meta")
    decoder = Decoder.load(model_dirs[shape], config, Quantization.NONE, dtype, device=meta)
    groups = len(config.cache_groups())
    with torch.inference_mode(), _OneDevice(meta) as watch:
        logits = Runner(decoder, 200, 16).forward(_batch(groups))
    assert watch.operations > 50
    assert (tuple(logits.shape), logits.dtype) == ((3, config.vocab_size), torch.float32)
    assert decoder.last_attention_s is None, "a time that is not the device's own is not reported"


def test_a_tensor_on_another_device_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="on cpu"), _OneDevice(torch.device("meta")):
        torch.zeros(4, device="meta").index_select(0, torch.tensor([1]))


@needs_cuda
@pytest.mark.parametrize("shape", ["grouped_tied", "gemma3"])
def test_cuda_computes_what_the_cpu_computes(model_dirs: dict[str, Path], shape: str) -> None:
    config = read_model_config(model_dirs[shape])
    groups = len(config.cache_groups())
    results = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        decoder = Decoder.load(model_dirs[shape], config, Quantization.NONE, torch.float32, device=device)
        with torch.inference_mode():
            results.append(Runner(decoder, 200, 16).forward(_batch(groups)).cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


@needs_cuda
def test_text_on_cuda_is_transformers(model_dir: Path, reference: Any, run: Any) -> None:
    prompt = list(range(3, 90))
    assert run(model_dir, [prompt], 16, options={"device": "cuda"}) == [reference(model_dir, prompt, 16)]


def test_auto_finds_a_device() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_refused(model_dir: Path, run: Any) -> None:
    with pytest.raises(BadRequest, match="no CUDA device") as refused:
        run(model_dir, [[1]], 1, options={"device": "cuda"})
    assert refused.value.detail["field"] == "device"


def test_float16_is_refused_where_the_model_overflows(model_dirs: dict[str, Path]) -> None:
    with pytest.raises(BadRequest, match="float16") as refused:
        check_dtype(read_model_config(model_dirs["gemma3"]), torch.float16)
    assert refused.value.detail["field"] == "dtype"
    check_dtype(read_model_config(model_dirs["grouped_tied"]), torch.float16)
