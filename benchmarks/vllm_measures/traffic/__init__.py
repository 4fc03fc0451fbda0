"""What is asked of a vLLM server, and by whom."""
