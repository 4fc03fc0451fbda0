"""What the service and this process, which is all the agents, use of the processor."""

import os
import time
from dataclasses import dataclass

from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.proc_files import busy_s


@dataclass(frozen=True)
class Spent:
    """CPU seconds within `took_s`; others: of everything else on the machine."""

    took_s: float
    service_s: float
    load_s: float
    others_s: float

    def __str__(self) -> str:
        service, load, others = (
            f"{part:.2f} s ({100 * part / max(self.took_s, 1e-9):.0f} %)"
            for part in (self.service_s, self.load_s, self.others_s)
        )
        return f"in {self.took_s:.2f} s the service used {service} of CPU, the agents {load}, others {others}"


class Meter:
    """Counts from its making on; a service that was started again meanwhile counts from its own start."""

    def __init__(self, service: Service) -> None:
        self._service, self._pid = service, service.child.pid
        self._began, self._before = time.monotonic(), self._now()

    def spent(self) -> Spent:
        service, load, busy = self._now()
        if self._service.child.pid != self._pid:
            self._before = (0.0, *self._before[1:])
        used = (service - self._before[0], load - self._before[1])
        others = max(0.0, busy - self._before[2] - sum(used))
        return Spent(time.monotonic() - self._began, *used, others)

    def _now(self) -> tuple[float, float, float]:
        own = os.times()
        return self._service.child.cpu_s(), own.user + own.system, busy_s()
