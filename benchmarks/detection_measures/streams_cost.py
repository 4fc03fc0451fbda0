"""What 10,000 streams cost every 5 s: so many pools' detectors for an hour, tick by tick, baselines renewed on the way.

Windows are in memory, as the product has them; what reading them from the store costs is measured elsewhere.
"""

import time
import tracemalloc

from benchmarks.detection_measures.arrivals import Lap
from benchmarks.detection_measures.fast_forward import WARM_S, windows_of
from benchmarks.detection_measures.scenes import HOUR_S, shape
from benchmarks.detection_measures.worlds import World
from controlplane.alerts.regressions.baseline import FLEET
from controlplane.alerts.regressions.detector import Detector, Key
from controlplane.alerts.windows.load import LoadMeter
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.metrics import WINDOW_S

STREAMS, POOLS = 10_000, 2


def measure(source: Lap, seed: int) -> None:
    """Prints the share of a core, and the memory."""
    spent_s, streams, ticks, held, kept = 0.0, 0, 0, 0, 0
    for pool in range(POOLS):
        meter = LoadMeter()
        chunks = World(shape("easy", 20.0), source, (seed, 90, pool)).chunks(WARM_S + HOUR_S)
        windows = [window for chunk in chunks for window in windows_of(chunk, "prefill", meter)]
        held += sum(
            tail.tail.nbytes for window in windows for tails in window.tails.values() for tail in tails.values()
        )
        held += sum(levels.figures.nbytes for window in windows for levels in window.nodes.values())
        detector = Detector(RegressionCondition(metrics=["prefill"]))
        first = next(place for place, window in enumerate(windows) if window.start_s >= WARM_S)
        tracemalloc.start()
        detector.advance(windows[first], windows[: first + 1])
        kept += tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        began = time.process_time()
        for place in range(first + 1, len(windows)):
            # A view of the past, as the product keeps one list that grows.
            detector.advance(windows[place], windows)
        spent_s += time.process_time() - began
        ticks += len(windows) - first - 1
        streams += detector.stream_count(Key("prefill", 0.95, FLEET))
        streams += sum(len(watch.course.lines) for watch in detector.watches.values() if watch.course is not None)
    each_s = spent_s / ticks / (streams / POOLS)
    print(f"\n{STREAMS} streams each {WINDOW_S:g} s: {100.0 * each_s * STREAMS / WINDOW_S:.1f} % of a core", end=" ")
    print(f"({1e6 * each_s:.0f} us a stream and tick; {streams} streams of {POOLS} pools, {ticks // POOLS} ticks);")
    print(f"memory: {kept / streams * STREAMS / 2**20:.0f} MiB of detectors,", end=" ")
    print(f"{held / streams * STREAMS / 2**20:.0f} MiB of histograms", flush=True)
