"""The embedded torch engine: an OpenAI-compatible server for Hugging Face folders (Llama, Qwen2, Qwen3, Gemma 3 text)
whose knobs move while it serves.

The names below are loaded on first use, so that the scheduler and the block pool can be imported without torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.engine.core.engine import Engine
    from agents.engine.options import EngineOptions
    from agents.engine.server.app import create_app, serve

__all__ = ["Engine", "EngineOptions", "create_app", "serve"]

_HOME = {"Engine": "core.engine", "EngineOptions": "options", "create_app": "server.app", "serve": "server.app"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
