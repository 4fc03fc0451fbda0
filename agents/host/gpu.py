"""What NVIDIA's management library (NVML) says of the engine's GPUs.

Guarantee: a machine without library, driver or GPU is said once and measures nothing; a call that one GPU does not
support leaves out that figure alone. The library is loaded at the first sample, and never by importing this.
"""

import contextlib
import importlib
import logging
from collections.abc import Callable
from typing import Any

from agents.host.snapshot import Figures
from controlplane.contract import metrics

log = logging.getLogger(__name__)

MODULE = "pynvml"
_XID_WAIT_MS = 0


def load() -> Any:
    """The library of the extra `gpu` (nvidia-ml-py). Raises ImportError."""
    return importlib.import_module(MODULE)


class Gpus:
    """Of several GPUs of an engine the worst counts: the slowest binds all where a model is spread over them."""

    def __init__(self, library: Callable[[], Any] = load) -> None:
        self._library = library
        self._nvml: Any = None
        self._absent = False
        self._handles: list[Any] = []
        self._events: Any = None
        self._errors: dict[int, int] = {}  # Uncorrected ECC errors so far, by place.
        self._seen_us: dict[int, int] = {}  # Newest sample of processes' use, by place.

    def sample(self, engine: frozenset[int]) -> Figures:
        """Figures of the GPUs that `engine`'s processes use; of all where none of theirs can be seen."""
        if not self._begun():
            return {}
        places = self._used_by(engine) or list(range(len(self._handles)))
        found: Figures = {}
        self._clocks(places, found)
        self._heat_and_power(places, found)
        self._memory(places, found)
        self._faults(places, found)
        others = [share for place in places if (share := self._others(place, engine)) is not None]
        if others:
            found[metrics.GPU_OTHER_UTILIZATION] = max(others)
        return found

    def name(self) -> str:
        """What the machine's GPUs are, such as "NVIDIA H100 80GB HBM3"; empty without one, or where they differ."""
        if not self._begun():
            return ""
        names = {self._ask("nvmlDeviceGetName", handle) for handle in self._handles}
        found = names.pop() if len(names) == 1 else None
        return found.decode(errors="replace") if isinstance(found, bytes) else found or ""

    def _begun(self) -> bool:
        if self._absent or self._nvml is not None:
            return not self._absent
        try:
            nvml = self._library()
        except ImportError:
            return self._without("nvidia-ml-py is not installed (pip install --require-hashes -r deploy/locks/gpu.txt)")
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(count)]
        except nvml.NVMLError as error:
            return self._without(f"NVML cannot be used: {error}")
        if not self._handles:
            return self._without("the machine has none")
        self._nvml = nvml
        self._watch_for_xid()
        return True

    def _without(self, why: str) -> bool:
        log.info("host metrics: GPUs are not measured: %s", why)
        self._absent = True
        return False

    def _watch_for_xid(self) -> None:
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError as error:
            log.info("host metrics: XID errors are not measured: %s", error)
            return
        self._events = events

    def _ask(self, name: str, *arguments: Any) -> Any:
        """One call; None where this GPU or driver does not support it."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _used_by(self, engine: frozenset[int]) -> list[int]:
        return [
            place
            for place, handle in enumerate(self._handles)
            if any(one.pid in engine for one in self._ask("nvmlDeviceGetComputeRunningProcesses", handle) or ())
        ]

    def _clocks(self, places: list[int], found: Figures) -> None:
        kind = self._nvml.NVML_CLOCK_SM
        told = []
        reasons = 0
        for place in places:
            clock = self._ask("nvmlDeviceGetClockInfo", self._handles[place], kind)
            highest = self._ask("nvmlDeviceGetMaxClockInfo", self._handles[place], kind)
            if clock is not None and highest:
                told.append((clock / highest, clock, highest))
            # The newer name of the same call goes first.
            now = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._handles[place])
            if now is None:
                now = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._handles[place])
            if now is not None:
                reasons |= now
                found[metrics.GPU_THROTTLE_REASON] = float(reasons)
        if told:
            _, clock, highest = min(told)
            found[metrics.GPU_CLOCK], found[metrics.GPU_CLOCK_MAX] = float(clock), float(highest)

    def _heat_and_power(self, places: list[int], found: Figures) -> None:
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        degrees = [self._ask("nvmlDeviceGetTemperature", self._handles[place], sensor) for place in places]
        if told := [degree for degree in degrees if degree is not None]:
            found[metrics.GPU_TEMPERATURE] = float(max(told))
        powers = []
        for place in places:
            used_mw = self._ask("nvmlDeviceGetPowerUsage", self._handles[place])
            limit_mw = self._ask("nvmlDeviceGetEnforcedPowerLimit", self._handles[place])
            if used_mw is not None and limit_mw:
                powers.append((used_mw / limit_mw, used_mw / 1000.0, limit_mw / 1000.0))
        if powers:
            _, found[metrics.GPU_POWER], found[metrics.GPU_POWER_LIMIT] = max(powers)

    def _memory(self, places: list[int], found: Figures) -> None:
        told = [self._ask("nvmlDeviceGetMemoryInfo", self._handles[place]) for place in places]
        if shares := [one.used / one.total for one in told if one is not None and one.total]:
            found[metrics.GPU_MEMORY] = max(shares)

    def _faults(self, places: list[int], found: Figures) -> None:
        nvml = self._nvml
        for place in places:
            errors = self._ask(
                "nvmlDeviceGetTotalEccErrors",
                self._handles[place],
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            )
            if errors is not None:
                grown = max(errors - self._errors.get(place, errors), 0)
                self._errors[place] = errors
                found[metrics.GPU_ECC] = found.get(metrics.GPU_ECC, 0.0) + grown
        if self._events is not None:
            found[metrics.GPU_XID] = float(self._last_xid())

    def _last_xid(self) -> int:
        number = 0
        with contextlib.suppress(self._nvml.NVMLError):  # Ends with the error "timeout" when no more wait.
            while True:
                number = int(self._nvml.nvmlEventSetWait_v2(self._events, _XID_WAIT_MS).eventData) or number
        return number

    def _others(self, place: int, engine: frozenset[int]) -> float | None:
        """Share of SM time, in the mean of NVML's newest samples, that processes other than the engine's used."""
        if not engine:
            return None
        seen = self._seen_us.get(place, 0)
        nvml = self._nvml
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(self._handles[place], seen)
        except nvml.NVMLError as error:
            # "Not found" is how NVML says that nothing ran since.
            return 0.0 if error.value == nvml.NVML_ERROR_NOT_FOUND else None
        fresh = [one for one in samples if one.timeStamp > seen]
        if fresh:
            self._seen_us[place] = max(one.timeStamp for one in fresh)
        by_process: dict[int, list[int]] = {}
        for one in fresh:
            if one.pid not in engine:
                by_process.setdefault(one.pid, []).append(one.smUtil)
        return min(sum(sum(used) / len(used) for used in by_process.values()) / 100.0, 1.0)
