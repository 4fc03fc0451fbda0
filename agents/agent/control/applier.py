"""Carries out the configuration the control plane wants, and keeps it in force.

Guarantees: one change at a time; a newer wish replaces one that has not begun. A change that fails leaves the previous
configuration in force and is reported FAILED with the reason. An engine that cannot be reached is waited for (the
status stays APPLYING). After an engine restart the last configuration that worked is applied again, with or without a
control plane: it is in `configuration.json`. Losing the control plane changes nothing, but for a configuration that is
on trial (`lease.py`): its lease, and the promoted configuration, are on the disk before the engine is touched, and are
given up in the same write that says that another configuration is in force. Once the lease is over the node goes back
to the promoted one, and says so as the offer's FAILED; that is on the disk before the engine is touched, too.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agents.agent.control import configuration_file
from agents.agent.control.configuration_file import FILE_NAME, Kept
from agents.agent.control.lease import Lease
from agents.agent.control.offer import ConfigOutcome, LeaseTerms, WantedConfig, parse_offer
from agents.backends.base import Backend, EngineUnreachable
from agents.host.backoff import Backoff
from agents.host.boot_clock import BootTime, boot_time
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import difference
from controlplane.contract.reports.declared_knobs import started_as
from controlplane.contract.reports.opamp import LEASE_ENDED

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often a lease is looked at: a machine that slept wakes with its timers late."""
RETRY_S = 30.0
"""After which the promoted configuration is tried again where the engine has refused it."""
KEPT_EVERY = 0.1
"""Of a lease: how often its renewal is written down. A killed agent's lease ends by as much too early, never late."""

HEARD_EVERY = 0.25
"""Of a lease: how often the control plane is to be heard, so that a lost message does not end it."""


class Applier:
    """`outcome` is what to report; `publish` is called with what the engine runs after a change, or None."""

    def __init__(
        self,
        backend: Backend,
        state_dir: Path,
        publish: Callable[[EffectiveConfig | None], None],
        *,
        clock: Callable[[], BootTime] = boot_time,
        look_s: float = LOOK_S,
    ) -> None:
        self._backend = backend
        self._file = state_dir / FILE_NAME
        self._publish = publish
        self._clock = clock
        self._look_s = look_s
        self._wake = asyncio.Event()
        self._next: WantedConfig | None = None
        self._boot_changed = False
        kept = configuration_file.read(self._file)
        self._boot = kept.boot
        self._lease = kept.lease
        self._written = kept
        self._return_refused = False
        self.good = kept.good
        self.cache_reset = kept.cache_reset
        """The newest emptying of the prefix cache that was carried out; None where the engine offers no way to."""
        self.outcome = kept.outcome

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

    def heard(self) -> None:
        """The control plane has answered: the lease runs anew."""
        if self._lease is None:
            return
        self._lease = lease = self._lease.renewed(self._clock())
        written = self._written.lease
        if written is None or lease.heard.at_s - written.heard.at_s >= KEPT_EVERY * lease.duration_s:
            self._save()

    @property
    def quiet_s(self) -> float:
        """For how long the control plane does not have to be heard: several tries may fail within a lease."""
        return math.inf if self._lease is None else self._lease.duration_s * HEARD_EVERY

    def engine_seen(self, boot: str) -> None:
        """The event stream began: when this is another engine process than before, it may have forgotten."""
        if boot != self._boot:
            self._boot = boot
            self._boot_changed = True
            self._wake.set()

    async def run(self) -> None:
        """Carry out wishes for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s()):
                    await self._wake.wait()
            self._wake.clear()
            wanted, self._next = self._next, None
            restarted, self._boot_changed = self._boot_changed, False
            if wanted is not None:
                await self._take(wanted)
            elif self._lease is not None and self._lease.is_over(self._clock()):
                await self._return(self._lease)
            elif restarted:
                await self._restore()
            else:
                continue
            self._save()

    def _patience_s(self) -> float | None:
        """How long nothing has to be looked at; None: as long as nobody wakes it."""
        if self._lease is None:
            return None
        left_s = self._lease.left_s(self._clock())
        if left_s > 0:
            return min(left_s, self._look_s)
        return RETRY_S if self._return_refused else 0.0

    async def _take(self, wanted: WantedConfig) -> None:
        held = self._lease
        if wanted.lease is not None and not self._begin(wanted.offer_hash, wanted.lease):
            self._lease = held
            return
        await self._carry_out(wanted, held)

    def _begin(self, offer_hash: bytes, terms: LeaseTerms) -> bool:
        """Whether the lease is on the disk. Without it a killed agent would keep the configuration for ever."""
        self._lease = Lease(offer_hash, terms.promoted, terms.duration_s, self._clock())
        self._return_refused = False
        if self._save():
            return True
        self._settle(ConfigOutcome(offer_hash, ConfigStatus.FAILED, f"its lease cannot be written to {self._file}"))
        return False

    async def _return(self, lease: Lease) -> None:
        """Back to the promoted configuration, by oneself."""
        number = lease.promoted.revision
        told = f"{LEASE_ENDED}the control plane was not heard for {lease.duration_s:.0f} s, back to revision {number}"
        log.warning(told)
        if self.outcome.offer_hash in (b"", lease.offer_hash):
            self._finish(ConfigOutcome(lease.offer_hash, ConfigStatus.FAILED, told))
        await self._carry_out(lease.promoted, lease)
        self._return_refused = self._lease is not None

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
        await self._carry_out(self.good, self._lease)

    async def _carry_out(self, wanted: WantedConfig, held: Lease | None) -> None:
        """Apply until it worked or was refused, unless something newer is wanted meanwhile, or its own lease is over.

        `held`: the lease of what is in force until then.
        """
        backoff = Backoff(first_s=0.2, limit_s=5.0)
        while self._next is None and not (self._is_leased(wanted) and self._is_over()):
            try:
                effective = await self._apply(wanted)
            except EngineUnreachable as error:
                log.warning("revision %d waits for the engine: %s", wanted.revision, error.message)
                await asyncio.sleep(backoff.next_s())
                continue
            except TailwrightError as error:
                log.error("revision %d was not applied: %s", wanted.revision, error.message)
                if held is not None and self._lease is not None:
                    held = replace(held, heard=self._lease.heard)  # Whoever was heard was heard.
                self._lease = held
                self._conclude(wanted, ConfigStatus.FAILED, error.message)
                return
            log.info("revision %d is in force", wanted.revision)
            self.good = wanted
            self._boot_changed = False
            if not self._is_leased(wanted):
                self._lease = None
            self._conclude(wanted, ConfigStatus.APPLIED, "")
            self._publish(effective)
            return

    def _is_leased(self, wanted: WantedConfig) -> bool:
        lease = self._lease
        return lease is not None and wanted is not lease.promoted and wanted.offer_hash == lease.offer_hash

    def _is_over(self) -> bool:
        return self._lease is not None and self._lease.is_over(self._clock())

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

    def _save(self) -> bool:
        """Whether it is on the disk."""
        kept = Kept(self._boot, self.good, self.outcome, self.cache_reset, self._lease)
        if kept == self._written:  # Each write waits for the disk, and the agent with it.
            return True
        try:
            configuration_file.write(self._file, kept)
        except OSError as error:
            log.error("%s cannot be written: %s", self._file, error)
            return False
        self._written = kept
        return True


def _same(effective: EffectiveConfig, wanted: WantedConfig) -> bool:
    if effective.revision != wanted.revision:
        return False
    knobs = started_as(effective.declared, wanted.config.knobs())
    return not difference(knobs, effective.knobs, unreported=True)
