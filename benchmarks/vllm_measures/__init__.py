"""vLLM with Trimtab beside it, measured on real servers."""
