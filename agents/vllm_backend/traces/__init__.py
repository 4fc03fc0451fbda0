"""The traces that vLLM sends of its requests: exact latencies where raw statistics cannot be had."""

from agents.vllm_backend.traces.merge import TracedMerge
from agents.vllm_backend.traces.receiver import TraceReceiver
from agents.vllm_backend.traces.request import TracedRequest

__all__ = ["TraceReceiver", "TracedMerge", "TracedRequest"]
