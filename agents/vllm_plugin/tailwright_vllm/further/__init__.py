"""Settings that vLLM takes at its start: those that move all the same, and what became of the others."""
