"""A vLLM server as a `Backend`: its raw statistics and live limits through the plugin in `agents/vllm_plugin`."""

from agents.vllm_backend.attached import AttachedVllm

__all__ = ["AttachedVllm"]
