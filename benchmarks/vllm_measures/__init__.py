"""vLLM with Tailwright beside it, measured on real servers."""
