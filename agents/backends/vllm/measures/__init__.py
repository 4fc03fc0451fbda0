"""What vLLM says where raw statistics cannot be had: its metrics endpoint and its traces, as the contract's events."""

from agents.backends.vllm.measures.merge import TracedMerge
from agents.backends.vllm.measures.scrape_memory import ScrapeMemory
from agents.backends.vllm.measures.scraper import Scraper
from agents.backends.vllm.measures.traced_request import TracedRequest
from agents.backends.vllm.measures.traces import TraceReceiver

__all__ = ["ScrapeMemory", "Scraper", "TraceReceiver", "TracedMerge", "TracedRequest"]
