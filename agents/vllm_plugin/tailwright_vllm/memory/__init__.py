"""What vLLM holds in memory: asked of its workers once, at the start."""
