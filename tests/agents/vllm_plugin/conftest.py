"""Puts a module tree in place of vLLM's for one test."""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tailwright_vllm import feed, installation, surprises
from tailwright_vllm.further import queue_limits
from tailwright_vllm.memory import engine_memory, worker_memory

from tests.agents.vllm_plugin.vllm_trees import (
    PLUGIN_MODULES,
    AsyncScheduler,
    Executor,
    IterationStats,
    Scheduler,
    StatLoggerBase,
)


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """vllm(**replaced) puts a tree in place of vLLM's: `Scheduler=...` replaces that class, None leaves it out."""
    monkeypatch.setattr(surprises.surprises, "counts", {})
    monkeypatch.setattr(feed, "_feeds", {})
    monkeypatch.setattr(installation, "_said", set())
    monkeypatch.setattr(queue_limits, "_followed", {})
    monkeypatch.setattr(engine_memory, "_told", {})
    monkeypatch.setattr(worker_memory, "_at_start", {})

    def put(version: str = "0.32.0", **replaced: Any) -> None:
        fresh_stats = type("IterationStats", (IterationStats,), dict(vars(IterationStats)))  # The plugin wraps it.
        places: dict[str, dict[str, Any]] = {
            "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
            "vllm.v1.core.sched.async_scheduler": {"AsyncScheduler": AsyncScheduler},
            "vllm.v1.executor.abstract": {"Executor": type("Executor", (Executor,), dict(vars(Executor)))},
            "vllm.v1.metrics.loggers": {"StatLoggerBase": StatLoggerBase},
            "vllm.v1.metrics.stats": {"IterationStats": fresh_stats},
        }
        parents = ("vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched", "vllm.v1.executor", "vllm.v1.metrics")
        for name in (*parents, *places):
            module = types.ModuleType(name)
            for member, own in places.get(name, {}).items():
                value = replaced.get(member, own)
                if value is not None:
                    setattr(module, member, value)
            monkeypatch.setitem(sys.modules, name, module)
        sys.modules["vllm"].__version__ = version  # type: ignore[attr-defined]

    for name in PLUGIN_MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield put
    for made in feed._feeds.values():
        made.close()
    for name in PLUGIN_MODULES:
        sys.modules.pop(name, None)
