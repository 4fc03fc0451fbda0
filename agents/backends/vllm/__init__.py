"""A vLLM server as a `Backend`: attached to where it runs, or managed by the agent."""

from agents.backends.vllm.attached import AttachedVllm
from agents.backends.vllm.managed import ManagedVllm
from agents.backends.vllm.node_file import load_node_file

__all__ = ["AttachedVllm", "ManagedVllm", "load_node_file"]
