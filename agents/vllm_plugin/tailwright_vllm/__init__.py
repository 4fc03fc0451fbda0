"""Tailwright inside vLLM: raw latencies out, scheduler limits in. Standard library only.

It does nothing unless `TAILWRIGHT_VLLM_DIR` names a folder that it shares with the agent beside this server;
`folder.py` lists the files in it. The statistics come from a stat-logger plugin, which vLLM loads by its entry point.
The limits need `--scheduler-cls tailwright_vllm.scheduler.live_scheduler`.
"""

__version__ = "0.6.0"
