"""What the sections work with: the settings, the cores, and the loaded hour that several of them ask."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.vllm_measures.processes import Nursery

if TYPE_CHECKING:
    from benchmarks.telemetry_measures.loaded_hour import LoadedHour


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    nodes: tuple[int, ...]
    minutes: float
    rounds: int
    kills: int
    seed: int
    quick: bool


@dataclass
class Session:
    """service_core: what is measured runs there alone; load_core: everything else."""

    settings: Settings
    nursery: Nursery
    service_core: int
    load_core: int
    failures: list[str] = field(default_factory=list)
    """What makes the exit status 1: lost or doubled reports."""
    _hour: "LoadedHour | None" = None

    @property
    def cores(self) -> set[int]:
        """Both, for what is measured on all of the machine."""
        return {self.service_core, self.load_core}

    @property
    def hour(self) -> "LoadedHour":
        """Loaded when it is first wanted."""
        from benchmarks.telemetry_measures.loaded_hour import LoadedHour

        if self._hour is None:
            self._hour = LoadedHour.load(self)
        return self._hour

    def close_hour(self) -> None:
        if self._hour is not None:
            self._hour.close()
            self._hour = None


Measure = Callable[[Session], None]


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"
