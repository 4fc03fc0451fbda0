"""A configuration as the control plane offers it, and what became of it: values, and the reading of an offer's body."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.nodes import ConfigStatus
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.declared_knobs import kept_config


@dataclass(frozen=True)
class LeaseTerms:
    """The offer is on trial: a node that hears nothing for `duration_s` goes back to the promoted configuration."""

    duration_s: float
    promoted: "WantedConfig"


@dataclass(frozen=True)
class WantedConfig:
    """A full configuration, its revision number, and the opaque hash it was offered under (empty: by nobody).

    `cache_reset` counts how often the prefix cache was to be emptied so far: a larger number than before asks for it.
    """

    revision: int
    config: EngineConfig
    offer_hash: bytes = b""
    cache_reset: int = 0
    lease: LeaseTerms | None = None


@dataclass(frozen=True)
class ConfigOutcome:
    """What became of the last offer; the OpAMP RemoteConfigStatus."""

    offer_hash: bytes = b""
    status: ConfigStatus = ConfigStatus.UNSET
    error: str = ""


def parse_offer(offer_hash: bytes, body: bytes) -> WantedConfig:
    """Read {"revision", "hash", "knobs", "cache_reset", "lease": {"duration_s", "promoted": {"revision", "knobs"}}}.

    The last two may be left out. Raises an error of the contract that names the wrong field.
    """
    try:
        offer = json.loads(body)
        revision, config = revision_of(offer)
        cache_reset, lease = offer.get("cache_reset", 0), offer.get("lease")
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"the offered configuration is not readable: {type(error).__name__} {error}") from error
    if isinstance(cache_reset, bool) or not isinstance(cache_reset, int):
        raise BadRequest("the offered configuration wants a whole 'cache_reset'", field="cache_reset")
    terms = None if lease is None else _terms(lease)
    return WantedConfig(revision, config, offer_hash, cache_reset, terms)


def revision_of(said: Mapping[str, Any]) -> tuple[int, EngineConfig]:
    """Of {"revision", "knobs"}."""
    revision, knobs = said["revision"], said["knobs"]
    if isinstance(revision, bool) or not isinstance(revision, int) or not isinstance(knobs, dict):
        raise BadRequest("the offered configuration wants a whole 'revision' and a table of 'knobs'", field="revision")
    return revision, kept_config(knobs, prefix="knobs.")


def _terms(said: Any) -> LeaseTerms:
    # Without its way back a leased configuration is refused: kept for ever is what a lease shall prevent.
    try:
        duration_s = float(said["duration_s"])
        revision, config = revision_of(said["promoted"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"the offered lease is not readable: {type(error).__name__} {error}", field="lease") from error
    if not math.isfinite(duration_s) or duration_s <= 0:
        raise BadRequest(f"the offered lease wants seconds above 0, got {duration_s}", field="lease.duration_s")
    return LeaseTerms(duration_s, WantedConfig(revision, config))
