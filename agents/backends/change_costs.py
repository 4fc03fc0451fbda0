"""What changes of the configuration have cost on this node, by change class, measured and kept over restarts.

Until it is in force a change takes time, in part of which requests wait; then the engine warms up (`warm_up.py`), which
is known a minute later, where it had work enough to tell.

Guarantee: only changes that came into force count. A file that is damaged, or cannot be written, is logged and costs no
more than the memory of earlier changes.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agents.backends.warm_up import WarmUp
from agents.host.durable_file import write_durably
from controlplane.contract.bodies.nodes import ChangeCost
from controlplane.contract.knobs import ChangeClass

log = logging.getLogger(__name__)

FILE_NAME = "change-costs.json"
_COSTS: TypeAdapter[dict[ChangeClass, ChangeCost]] = TypeAdapter(dict[ChangeClass, ChangeCost])


class ChangeCosts:
    """Kept in `state_dir`, or in memory alone where that is None."""

    def __init__(self, state_dir: Path | None, *, now: Callable[[], float] = time.time) -> None:
        self._file = None if state_dir is None else state_dir / FILE_NAME
        self._costs = self._load()
        self._now = now
        self._warm_up = WarmUp()
        self._watched: tuple[ChangeClass, float] | None = None  # And how long requests waited.

    def record(self, change: ChangeClass, revision: int, took_s: float, unavailable_s: float = 0.0) -> None:
        """This revision came into force `took_s` after its receipt; requests had to wait for `unavailable_s` of it."""
        known = self._costs.get(change) or ChangeCost(count=0, last_s=0.0, mean_s=0.0)
        count = known.count + 1
        self._keep(
            change,
            count=count,
            last_s=took_s,
            mean_s=known.mean_s + (took_s - known.mean_s) / count,
            unavailable_s=known.unavailable_s + (unavailable_s - known.unavailable_s) / count,
        )
        self._warm_up.begin(self._now(), revision)
        self._watched = change, unavailable_s

    def see(self, event: Mapping[str, Any]) -> None:
        """An event of the engine's: after a change its steps tell of its warm-up."""
        warmed = self._warm_up.see(event)
        if warmed is None or self._watched is None:
            return
        (change, unavailable_s), self._watched = self._watched, None
        known, lost_s = self._costs[change], unavailable_s + warmed.lost_s
        count = known.warm_ups + 1
        self._keep(
            change,
            warm_ups=count,
            warm_up_s=known.warm_up_s + (warmed.warm_up_s - known.warm_up_s) / count,
            capacity_lost_s=known.capacity_lost_s + (lost_s - known.capacity_lost_s) / count,
        )

    def _keep(self, change: ChangeClass, **news: float) -> None:
        known = self._costs.get(change) or ChangeCost(count=0, last_s=0.0, mean_s=0.0)
        self._costs[change] = known.model_copy(update=news)
        self._save()

    def told(self) -> dict[ChangeClass, ChangeCost]:
        """The costs so far; a class that was never changed is left out."""
        return dict(self._costs)

    def _load(self) -> dict[ChangeClass, ChangeCost]:
        if self._file is None:
            return {}
        try:
            return _COSTS.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.error("%s is damaged, the costs of changes are measured anew: %s", self._file, error)
            return {}

    def _save(self) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(self._file, _COSTS.dump_json(self._costs))
        except OSError as error:
            log.error("%s cannot be written: %s", self._file, error)
