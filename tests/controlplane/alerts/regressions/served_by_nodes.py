"""Windows of a pool as its nodes are compared by, with random numbers of their own for each node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.node_levels import NodeLevels
from controlplane.contract.histogram import AXIS_LENGTH, AXIS_MIN, SCALE

METRIC = "prefill"
START_S = 50_000.0
LENGTHS = {"<=512": 1.0, "<=2k": 4.0}


@dataclass
class ServedByNodes:
    """hardware: by node how much slower it is for good; sigma: of ln of a request's latency; common_sd: of a wave that
    all requests of a window share."""

    hardware: Mapping[str, float]
    seed: int = 1
    sigma: float = 0.4
    common_sd: float = 0.1
    windows: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._common = np.random.default_rng([self.seed, 99])

    @property
    def now_s(self) -> float:
        return START_S + 5.0 * len(self.windows)

    def serve(
        self,
        seconds: float,
        factors: Mapping[str, float] | None = None,
        requests: Mapping[str, Mapping[str, int]] | None = None,
        everywhere: float = 1.0,
        nodes: Mapping[str, float] | None = None,
    ) -> list[Window]:
        """factors, everywhere: on latencies; requests: by node and prompt bucket, where they are not `usual`; nodes:
        those that serve, and their hardware, where it is not all."""
        first = len(self.windows)
        for _ in range(round(seconds / 5)):
            common = float(np.exp(self.common_sd * self._common.normal())) * everywhere
            keys, counts = [], []
            for place, (node, speed) in enumerate((nodes or self.hardware).items()):
                random = np.random.default_rng([self.seed, len(self.windows), place])
                for bucket, count in {"<=512": 5, "<=2k": 3, **(requests or {}).get(node, {})}.items():
                    if not count:
                        continue
                    took = 0.1 * LENGTHS[bucket] * speed * common * (factors or {}).get(node, 1.0)
                    values = took * random.lognormal(0.0, self.sigma, count)
                    places = np.ceil(np.log2(values) * 2**SCALE).astype(np.int64) - 1 - AXIS_MIN
                    keys.append((node, bucket))
                    counts.append(np.bincount(places, minlength=AXIS_LENGTH))
            levels = {METRIC: NodeLevels.of(keys, 0, np.array(counts))} if keys else {}
            self.windows.append(Window(self.now_s, 1.0, {}, levels))
        return self.windows[first:]
