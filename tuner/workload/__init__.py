"""What is asked of an engine: traces read, captured, rescaled and generated, and the prompts made of them."""
