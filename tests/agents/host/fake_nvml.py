"""The calls of nvidia-ml-py (pynvml) that are made, over GPUs described in plain fields."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


NOT_SUPPORTED, NOT_FOUND, TIMEOUT, NO_DRIVER = 3, 6, 10, 9


@dataclass
class FakeGpu:
    name: str | bytes = "NVIDIA H100 80GB HBM3"
    clock: int = 1980
    highest: int = 1980
    reasons: int = 0
    degrees: int = 60
    power_mw: int = 300_000
    limit_mw: int = 700_000
    used: int = 30
    total: int = 80
    ecc: int | None = 0
    pids: Sequence[int] = ()
    samples: list[tuple[int, int, int]] = field(default_factory=list)  # (pid, microseconds, share in %)


class FakeNvml:
    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_ERROR_NOT_FOUND = NOT_FOUND
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, *gpus: FakeGpu, broken: bool = False) -> None:
        self.gpus = gpus
        self.xids: list[int] = []
        self._broken = broken

    def nvmlInit(self) -> None:
        if self._broken:
            raise NVMLError(NO_DRIVER)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, place: int) -> FakeGpu:
        return self.gpus[place]

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str | bytes:
        return gpu.name

    def nvmlEventSetCreate(self) -> list[int]:
        return self.xids

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kinds: int, events: Any) -> None:
        assert kinds == self.nvmlEventTypeXidCriticalError

    def nvmlEventSetWait_v2(self, events: list[int], timeout_ms: int) -> Any:
        if not events:
            raise NVMLError(TIMEOUT)
        return SimpleNamespace(eventData=events.pop(0))

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in gpu.pids]

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: int) -> int:
        return gpu.clock

    def nvmlDeviceGetMaxClockInfo(self, gpu: FakeGpu, kind: int) -> int:
        return gpu.highest

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:
        return gpu.reasons

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:
        return gpu.degrees

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        return gpu.power_mw

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return gpu.limit_mw

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(used=gpu.used, total=gpu.total)

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, kind: int, counter: int) -> int:
        if gpu.ecc is None:
            raise NVMLError(NOT_SUPPORTED)
        return gpu.ecc

    def nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, since_us: int) -> list[Any]:
        fresh = [SimpleNamespace(pid=pid, timeStamp=at, smUtil=used) for pid, at, used in gpu.samples if at > since_us]
        if not fresh:
            raise NVMLError(NOT_FOUND)
        return fresh
