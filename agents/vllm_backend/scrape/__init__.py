"""vLLM's own metrics endpoint as the contract's events, where raw statistics cannot be had."""

from agents.vllm_backend.scrape.memory import ScrapeMemory
from agents.vllm_backend.scrape.scraper import Scraper

__all__ = ["ScrapeMemory", "Scraper"]
