"""`configuration.json`: what of the applier outlives its process.

Guarantee: the file is wholly the newest state or the one before (`write_durably`); one that is damaged is told of in
the log, and gone on without.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.agent.control.lease import Lease
from agents.agent.control.offer import ConfigOutcome, WantedConfig, revision_of
from agents.host.boot_clock import BootTime
from agents.host.durable_file import write_durably
from controlplane.contract.bodies.nodes import ConfigStatus
from controlplane.contract.errors import TailwrightError

log = logging.getLogger(__name__)

FILE_NAME = "configuration.json"


@dataclass(frozen=True)
class Kept:
    """`boot`: the engine process last seen; `good`: what worked last; `outcome`: of the last offer that was decided."""

    boot: str = ""
    good: WantedConfig | None = None
    outcome: ConfigOutcome = field(default_factory=ConfigOutcome)
    cache_reset: int | None = 0
    lease: Lease | None = None


def write(file: Path, kept: Kept) -> None:
    """Raises OSError; the old content then stands."""
    stored: dict[str, Any] = {"boot": kept.boot, "good": None, "outcome": None, "cache_reset": kept.cache_reset}
    if kept.good is not None:
        stored["good"] = {**_as_json(kept.good), "hash": kept.good.offer_hash.hex()}
    if kept.outcome.status in (ConfigStatus.APPLIED, ConfigStatus.FAILED):
        outcome = kept.outcome
        stored["outcome"] = {"hash": outcome.offer_hash.hex(), "status": outcome.status, "error": outcome.error}
    if (lease := kept.lease) is not None:
        stored["lease"] = {
            "hash": lease.offer_hash.hex(),
            "promoted": _as_json(lease.promoted),
            "duration_s": lease.duration_s,
            "heard": {"machine_boot": lease.heard.boot, "at_s": lease.heard.at_s},
        }
    write_durably(file, json.dumps(stored).encode())


def read(file: Path) -> Kept:
    """What is kept; nothing where there is no file, or none that can be read."""
    try:
        stored = json.loads(file.read_bytes())
        good, outcome, lease = stored["good"], stored["outcome"], stored.get("lease")
        return Kept(
            boot=str(stored["boot"]),
            good=None if good is None else WantedConfig(*revision_of(good), bytes.fromhex(good["hash"])),
            outcome=ConfigOutcome() if outcome is None else _outcome(outcome),
            cache_reset=stored["cache_reset"],
            lease=None if lease is None else _lease(lease),
        )
    except FileNotFoundError:
        return Kept()
    except (ValueError, KeyError, TypeError, TailwrightError) as error:
        log.error("%s is damaged, going on without it: %s", file, error)
        return Kept()


def _as_json(wanted: WantedConfig) -> dict[str, Any]:
    return {"revision": wanted.revision, "knobs": wanted.config.knobs()}


def _outcome(stored: Mapping[str, Any]) -> ConfigOutcome:
    return ConfigOutcome(bytes.fromhex(stored["hash"]), ConfigStatus(stored["status"]), str(stored["error"]))


def _lease(stored: Mapping[str, Any]) -> Lease:
    heard = BootTime(str(stored["heard"]["machine_boot"]), float(stored["heard"]["at_s"]))
    promoted = WantedConfig(*revision_of(stored["promoted"]))
    return Lease(bytes.fromhex(stored["hash"]), promoted, float(stored["duration_s"]), heard)
