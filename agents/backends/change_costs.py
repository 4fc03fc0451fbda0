"""What changes of the configuration have cost on this node, by change class, measured and kept over restarts.

Guarantee: only changes that came into force count. A file that is damaged, or cannot be written, is logged and costs no
more than the memory of earlier changes.
"""

import logging
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agents.host.durable_file import write_durably
from controlplane.contract.bodies.nodes import ChangeCost
from controlplane.contract.knobs import ChangeClass

log = logging.getLogger(__name__)

FILE_NAME = "change-costs.json"
_COSTS: TypeAdapter[dict[ChangeClass, ChangeCost]] = TypeAdapter(dict[ChangeClass, ChangeCost])


class ChangeCosts:
    """Kept in `state_dir`, or in memory alone where that is None."""

    def __init__(self, state_dir: Path | None) -> None:
        self._file = None if state_dir is None else state_dir / FILE_NAME
        self._costs = self._load()

    def record(self, change: ChangeClass, took_s: float, unavailable_s: float = 0.0) -> None:
        """One change came into force `took_s` after its receipt; requests had to wait for `unavailable_s` of it."""
        known = self._costs.get(change) or ChangeCost(count=0, last_s=0.0, mean_s=0.0)
        count = known.count + 1
        self._costs[change] = ChangeCost(
            count=count,
            last_s=took_s,
            mean_s=known.mean_s + (took_s - known.mean_s) / count,
            unavailable_s=known.unavailable_s + (unavailable_s - known.unavailable_s) / count,
        )
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
