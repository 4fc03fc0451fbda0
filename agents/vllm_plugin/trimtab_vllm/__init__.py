"""Trimtab inside vLLM: raw latencies out, scheduler limits in. Standard library only.

It does nothing unless `TRIMTAB_VLLM_DIR` names a folder that it shares with the agent beside this server:

  events.sock      raw statistics of each iteration, for one reader at a time (`feed.py`)
  knobs.json       the limits the agent wants, replaced atomically (`knob_file.py`)
  effective.json   the limits the scheduler really runs, written by the scheduler after each change

The statistics come from a stat-logger plugin, which vLLM loads by its entry point. The limits need
`--scheduler-cls trimtab_vllm.scheduler.live_scheduler`.
"""

__version__ = "0.1.0"
