"""The local proxy in front of a managed vLLM server: a process of its own, which outlives the agent."""
