"""Where the model's tensors live, and which number formats can be computed there."""

import torch

from agents.engine.model.config import ModelConfig
from controlplane.contract.errors import BadRequest


def choose_device(wanted: str) -> torch.device:
    """`auto` is CUDA where torch finds it, else the CPU. Raises `BadRequest` (device) where there is no CUDA."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadRequest(
            f"device: {wanted} is wanted, but torch {torch.__version__} finds no CUDA device here; use cpu or auto",
            field="device",
        )
    return device


def wait_for(device: torch.device) -> None:
    """Returns when all that was given to the device is computed; on the CPU it is."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check_dtype(config: ModelConfig, dtype: torch.dtype) -> None:
    """Raises `BadRequest` (dtype) for a format in which the model overflows."""
    if dtype is torch.float16 and config.sandwich_norms:
        raise BadRequest(
            f"dtype: float16 does not hold {config.architecture}'s residual stream, which passes 65504; "
            "use bfloat16 or float32",
            field="dtype",
        )
