"""A vLLM server that the agent starts, watches, restarts and replaces."""

from agents.vllm_backend.managed.backend import ManagedVllm

__all__ = ["ManagedVllm"]
