"""The lease of a configuration that is on trial in production (a canary's, a wave's): pure, without a clock of its own.

Guarantees: a lease that is over stays over, whatever is heard afterwards; no setting of the wall clock shortens or
lengthens one; one that was begun before the machine's last start is over. That clock has been lost, and the wall
clock of a machine that has just started may say anything; a rollout has given up such a node within seconds.
"""

from dataclasses import dataclass, replace

from agents.agent.control.offer import WantedConfig
from agents.host.boot_clock import BootTime


@dataclass(frozen=True)
class Lease:
    """Of the offer `offer_hash`. `heard`: when the control plane was last heard; from then on the lease runs anew."""

    offer_hash: bytes
    promoted: WantedConfig
    duration_s: float
    heard: BootTime

    def left_s(self, now: BootTime) -> float:
        """Seconds until it is over, 0 from then on."""
        silent_s = now.at_s - self.heard.at_s
        if now.boot != self.heard.boot or silent_s < 0:
            return 0.0
        return max(0.0, self.duration_s - silent_s)

    def is_over(self, now: BootTime) -> bool:
        return self.left_s(now) <= 0

    def renewed(self, now: BootTime) -> "Lease":
        """The control plane was heard."""
        return self if self.is_over(now) else replace(self, heard=now)
