"""A vLLM server as a `Backend`: attached to where it runs (`attached.py`), or managed by the agent (`managed/`).

Nothing is imported here: the proxy is a process of its own and stays small.
"""
