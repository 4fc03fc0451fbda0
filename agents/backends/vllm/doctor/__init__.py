"""`tailwright doctor vllm`: what of a vLLM installation works with Tailwright, and what of it can be tuned while it
serves.

Each module yields findings about one thing; `knob_table` puts together what can be moved and how. Nothing is changed.
"""
