"""vLLM's stat-logger plugin: takes each iteration's raw statistics and leaves them for the feed.

It is what of this plugin lives in vLLM's server process, so that the queue limits are followed from here, too
(`queue_limits.py`).

Guarantee: `record` makes a small record and puts it into a bounded ring; it never waits, never writes, and never raises
into vLLM. Whatever it cannot read of vLLM's statistics ends the recording with one line in the log, told in
plugin.json: the agent then falls back to /metrics. vLLM's own loggers stay: a plugin is added to them.
"""

from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from tailwright_vllm.feed import Feed, shared_feed
from tailwright_vllm.folder import VARIABLE, shared_folder
from tailwright_vllm.further.queue_limits import follow_queue_limits
from tailwright_vllm.installation import Installation, greet
from tailwright_vllm.request_details import install
from tailwright_vllm.statistics import read
from tailwright_vllm.surprises import described, log, surprises


class TailwrightStatLogger(StatLoggerBase):  # type: ignore[misc]
    """One per engine of this server process; they share one feed."""

    def __init__(self, vllm_config: Any = None, engine_index: int = 0, *later: Any, **later_versions: Any) -> None:
        self._feed: Feed | None = None
        self._installation: Installation | None = None
        self._engine = engine_index if isinstance(engine_index, int) else 0
        try:
            folder = shared_folder()
            if folder is None:
                log.info("tailwright: idle, %s is not set", VARIABLE)
                return
            greet()
            self._installation = Installation(folder, _scheduler_cls(vllm_config), _api_servers(vllm_config))
            feed = shared_feed(folder, _model_name(vllm_config), self._installation)
            feed.details = _install_details()
            feed.start()
            self._feed = feed
        except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
            surprises.note("stat_logger", "no raw statistics", error)
            if self._installation is not None:
                self._installation.raw_statistics(False, described(error))
        if self._installation is not None:
            _follow_queue_limits(vllm_config, self._installation, self._feed)

    def record(
        self,
        scheduler_stats: Any = None,
        iteration_stats: Any = None,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        *later: Any,
        **later_versions: Any,
    ) -> None:
        feed = self._feed
        if feed is None or (scheduler_stats is None and iteration_stats is None):
            return
        try:
            iteration = read(scheduler_stats, iteration_stats, feed.loads, self._engine)
            feed.ring.append(iteration, iteration.events, iteration.size)
        except Exception as error:  # noqa: BLE001 - vLLM goes on whatever its statistics have become.
            surprises.note("record", "recording ended, vLLM's statistics are not the known ones", error)
            feed.end(f"vLLM's statistics are not the known ones: {described(error)}")
            self._feed = None

    def log_engine_initialized(self) -> None:
        if self._feed is not None and self._feed.serving:
            log.info("tailwright: raw statistics for the agent at %s", self._feed.path)

    def __getattr__(self, name: str) -> Any:
        """Calls that a later vLLM makes on its stat loggers do nothing here."""
        if name.startswith("_") or not name.startswith(("log", "record")):
            raise AttributeError(name)
        return _nothing


TailwrightStatLogger.__abstractmethods__ = frozenset()  # A later vLLM's new abstract method must not stop its start.


def _nothing(*args: Any, **values: Any) -> None:
    return None


def _follow_queue_limits(vllm_config: Any, installation: Installation, feed: Feed | None) -> None:
    """Where vLLM was started with live limits, also without raw statistics. Of several API servers the one that serves
    the agent tells that they stay."""
    several = installation.api_servers > 1
    if not installation.limits_live or (several and (feed is None or not feed.serving)):
        return
    try:
        follow_queue_limits(installation.path.parent, vllm_config, installation.api_servers)
    except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
        surprises.note("queue_limits", "the queue limits stay as started", error)


def _install_details() -> bool:
    try:
        from vllm.v1.metrics.stats import IterationStats
    except ImportError as error:
        surprises.note("details", "vLLM's iteration statistics are elsewhere; events carry no prompt lengths", error)
        return False
    return install(IterationStats)


def _model_name(vllm_config: Any) -> str:
    """The name that clients use; the model's path, or nothing, where vLLM does not tell."""
    model = getattr(vllm_config, "model_config", None)
    served = getattr(model, "served_model_name", None) or getattr(model, "model", "")
    return str(served[0] if isinstance(served, list | tuple) else served)


def _scheduler_cls(vllm_config: Any) -> Any:
    return getattr(getattr(vllm_config, "scheduler_config", None), "scheduler_cls", None)


def _api_servers(vllm_config: Any) -> int:
    """Server processes of this vLLM (--api-server-count); 1 where vLLM does not tell."""
    count = getattr(getattr(vllm_config, "parallel_config", None), "_api_process_count", 1)
    return count if isinstance(count, int) else 1
