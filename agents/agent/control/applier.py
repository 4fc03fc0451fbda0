"""Carries out the configuration the control plane wants, and keeps it in force.

Guarantees: one change at a time; a newer wish replaces one that has not begun. A change that fails leaves the previous
configuration in force and is reported FAILED with the reason. An engine that cannot be reached is waited for (the
status stays APPLYING). After an engine restart the last configuration that worked is applied again, with or without a
control plane: it is in `configuration.json`. Losing the control plane changes nothing.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.backends.base import Backend, EngineUnreachable
from agents.host.backoff import Backoff
from agents.host.durable_file import write_durably
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.errors import BadRequest, TailwrightError
from controlplane.contract.knobs import EngineConfig, difference, parse_config

log = logging.getLogger(__name__)

FILE_NAME = "configuration.json"


@dataclass(frozen=True)
class WantedConfig:
    """A full configuration, its revision number, and the opaque hash it was offered under.

    `cache_reset` counts how often the prefix cache was to be emptied so far: a larger number than before asks for it.
    """

    revision: int
    config: EngineConfig
    offer_hash: bytes
    cache_reset: int = 0


@dataclass(frozen=True)
class ConfigOutcome:
    """What became of the last offer; the OpAMP RemoteConfigStatus."""

    offer_hash: bytes = b""
    status: ConfigStatus = ConfigStatus.UNSET
    error: str = ""


def parse_offer(offer_hash: bytes, body: bytes) -> WantedConfig:
    """Read {"revision", "hash", "knobs", "cache_reset"}. Raises an error of the contract that names the wrong field."""
    try:
        offer = json.loads(body)
        revision, knobs, cache_reset = offer["revision"], offer["knobs"], offer.get("cache_reset", 0)
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"the offered configuration is not readable: {type(error).__name__} {error}") from error
    if isinstance(revision, bool) or not isinstance(revision, int) or not isinstance(knobs, dict):
        raise BadRequest("the offered configuration wants a whole 'revision' and a table of 'knobs'", field="revision")
    if isinstance(cache_reset, bool) or not isinstance(cache_reset, int):
        raise BadRequest("the offered configuration wants a whole 'cache_reset'", field="cache_reset")
    return WantedConfig(revision, parse_config(knobs, prefix="knobs."), offer_hash, cache_reset)


class Applier:
    """`outcome` is what to report; `publish` is called with what the engine runs after a change, or None."""

    def __init__(self, backend: Backend, state_dir: Path, publish: Callable[[EffectiveConfig | None], None]) -> None:
        self._backend = backend
        self._file = state_dir / FILE_NAME
        self._publish = publish
        self._wake = asyncio.Event()
        self._next: WantedConfig | None = None
        self._boot_changed = False
        self._boot = ""
        self.good: WantedConfig | None = None
        self.cache_reset: int | None = 0
        """The newest emptying of the prefix cache that was carried out; None where the engine offers no way to."""
        self.outcome = ConfigOutcome()
        self._load()

    def offer(self, offer_hash: bytes, body: bytes) -> None:
        """The control plane wants this. Returns at once; `run` carries it out."""
        if offer_hash == self.outcome.offer_hash and self.outcome.status is not ConfigStatus.UNSET:
            return  # Known already; the next full state says so again.
        try:
            wanted = parse_offer(offer_hash, body)
        except TailwrightError as error:
            self._next = None
            self._finish(ConfigOutcome(offer_hash, ConfigStatus.FAILED, error.message))
            return
        self._next = wanted
        self._settle(ConfigOutcome(offer_hash, ConfigStatus.APPLYING))
        self._wake.set()

    def engine_seen(self, boot: str) -> None:
        """The event stream began: when this is another engine process than before, it may have forgotten."""
        if boot != self._boot:
            self._boot = boot
            self._boot_changed = True
            self._wake.set()

    async def run(self) -> None:
        """Carry out wishes for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted, self._next = self._next, None
            restarted, self._boot_changed = self._boot_changed, False
            if wanted is not None:
                await self._carry_out(wanted)
            elif restarted:
                await self._restore()
            self._save()

    async def _restore(self) -> None:
        if self.good is None:
            return
        try:
            effective = await self._backend.effective()
        except TailwrightError:
            effective = None
        if effective is not None and _same(effective, self.good):
            return
        log.warning("the engine restarted, applying revision %d again", self.good.revision)
        await self._carry_out(self.good)

    async def _carry_out(self, wanted: WantedConfig) -> None:
        """Apply until it worked or was refused, unless something newer is wanted meanwhile."""
        backoff = Backoff(first_s=0.2, limit_s=5.0)
        while self._next is None:
            try:
                effective = await self._apply(wanted)
            except EngineUnreachable as error:
                log.warning("revision %d waits for the engine: %s", wanted.revision, error.message)
                await asyncio.sleep(backoff.next_s())
                continue
            except TailwrightError as error:
                log.error("revision %d was not applied: %s", wanted.revision, error.message)
                self._conclude(wanted, ConfigStatus.FAILED, error.message)
                return
            log.info("revision %d is in force", wanted.revision)
            self.good = wanted
            self._boot_changed = False
            self._conclude(wanted, ConfigStatus.APPLIED, "")
            self._publish(effective)
            return

    async def _apply(self, wanted: WantedConfig) -> EffectiveConfig:
        """The configuration, and the emptying of the cache where it is asked for anew; then mostly with no change."""
        if wanted.cache_reset <= (self.cache_reset or 0):
            return await self._backend.apply(wanted.config, wanted.revision)
        effective = await self._backend.effective()
        if not _same(effective, wanted):
            effective = await self._backend.apply(wanted.config, wanted.revision)
        self.cache_reset = wanted.cache_reset if await self._backend.reset_cache() else None
        return effective

    def _conclude(self, wanted: WantedConfig, status: ConfigStatus, error: str) -> None:
        # A good configuration that was restored after a later offer had failed says nothing about that offer,
        # and neither does one that was overtaken.
        if wanted.offer_hash == self.outcome.offer_hash:
            self._finish(ConfigOutcome(wanted.offer_hash, status, error))
        else:
            self._save()

    def _finish(self, outcome: ConfigOutcome) -> None:
        self.outcome = outcome
        self._save()
        self._publish(None)

    def _settle(self, outcome: ConfigOutcome) -> None:
        self.outcome = outcome
        self._publish(None)

    def _save(self) -> None:
        good = self.good
        stored: dict[str, Any] = {"boot": self._boot, "good": None, "outcome": None, "cache_reset": self.cache_reset}
        if good is not None:
            stored["good"] = {"revision": good.revision, "knobs": good.config.knobs(), "hash": good.offer_hash.hex()}
        if self.outcome.status in (ConfigStatus.APPLIED, ConfigStatus.FAILED):
            outcome = self.outcome
            stored["outcome"] = {"hash": outcome.offer_hash.hex(), "status": outcome.status, "error": outcome.error}
        try:
            write_durably(self._file, json.dumps(stored).encode())
        except OSError as error:
            log.error("%s cannot be written: %s", self._file, error)

    def _load(self) -> None:
        try:
            stored = json.loads(self._file.read_bytes())
            self._boot = str(stored["boot"])
            self.cache_reset = stored["cache_reset"]
            if (good := stored["good"]) is not None:
                self.good = WantedConfig(good["revision"], parse_config(good["knobs"]), bytes.fromhex(good["hash"]))
            if (outcome := stored["outcome"]) is not None:
                status = ConfigStatus(outcome["status"])
                self.outcome = ConfigOutcome(bytes.fromhex(outcome["hash"]), status, str(outcome["error"]))
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, TailwrightError) as error:
            log.error("%s is damaged, going on without it: %s", self._file, error)


def _same(effective: EffectiveConfig, wanted: WantedConfig) -> bool:
    if effective.revision != wanted.revision:
        return False
    return not difference(wanted.config.knobs(), effective.knobs, unreported=True)
