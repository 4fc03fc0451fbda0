"""A vLLM server as a `Backend`: attached to where it runs, or managed by the agent."""

from agents.vllm_backend.attached import AttachedVllm
from agents.vllm_backend.managed import ManagedVllm
from agents.vllm_backend.node_file import load_node_file

__all__ = ["AttachedVllm", "ManagedVllm", "load_node_file"]
