"""A vLLM server that the agent starts, watches, restarts and replaces."""

from agents.backends.vllm.managed.backend import ManagedVllm

__all__ = ["ManagedVllm"]
