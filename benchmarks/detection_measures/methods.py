"""The product's detector as it is measured: as installed, the one before it, and without one of its parts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.detection_measures.fast_forward import Replay, watch
from benchmarks.detection_measures.worlds import Chunk
from controlplane.alerts.regressions import course as courses
from controlplane.alerts.regressions import yardstick
from controlplane.alerts.regressions.baseline import FLEET
from controlplane.alerts.regressions.course import APART, TAIL, Course
from controlplane.alerts.regressions.detector import Detector, Workshop
from controlplane.alerts.regressions.learner import Learner
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.pool_record import PoolRecord
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.evidence import wander
from controlplane.evidence.shift_scan import Scan
from controlplane.evidence.wander import Wander


class ExceedancesAlone(Detector):
    """The detector without courses, as it judges baselines of less than an hour (docs/decisions/0049)."""

    def workshop(self, history: Sequence[Window]) -> Workshop:
        return _WithoutCourses(self.condition, history)


class _WithoutCourses(Workshop):
    def survey(self, learner: Learner, end_s: float, at_s: float) -> Course | None:
        return None


METHODS: dict[str, tuple[str, type[Detector]]] = {
    "product, prefill": ("prefill", Detector),
    "product, ttft": ("ttft", Detector),
    "product, tpot": ("tpot", Detector),
    "exceedances alone, prefill": ("prefill", ExceedancesAlone),
}
PARTS = {
    "wander": "a tick's noise has no memory",
    "floors": "slow drift is supposed only as far as a baseline shows it",
    "caution": "what few spans show is taken as it is",
    "tail": "no line by tail",
    "apart": "no line of a bucket against the others",
    "buckets": "all requests together alone, no line of a bucket",
    "tokens": "what longer prompts explain is left in",
    "memory": "how latency wandered longer ago than the baseline is forgotten",
    "nodes": "no node against the others",
}


def followed(
    method: str,
    chunks: Iterable[Chunk],
    without: Sequence[str] = (),
    records: Sequence[tuple[float, PoolRecord]] = (),
    *,
    first_only: bool = False,
) -> Replay:
    """What the method made of a world; without: of `PARTS`."""
    metric, kind = METHODS[method]
    condition = RegressionCondition(metrics=[metric])
    detector = Ablated(condition, without) if without else kind(condition)
    with _constants(without):
        return watch(detector, metric, chunks, records, first_only=first_only)


class Ablated(Detector):
    """Without some parts."""

    def __init__(self, condition: RegressionCondition, without: Sequence[str]) -> None:
        super().__init__(condition)
        self._without = frozenset(without)
        if "nodes" in self._without:
            self.watches.clear()

    def workshop(self, history: Sequence[Window]) -> Workshop:
        return _AblatedWorkshop(self.condition, history, self._without)


class _AblatedWorkshop(Workshop):
    def __init__(self, condition: RegressionCondition, history: Sequence[Window], without: frozenset[str]) -> None:
        super().__init__(condition, history)
        self._without = without

    def survey(self, learner: Learner, end_s: float, at_s: float) -> Course | None:
        if "memory" in self._without:
            learner.noise.by_line.clear()
        found = super().survey(learner, end_s, at_s)
        if found is None:
            return None
        lines = {name: line for name, line in found.lines.items() if name not in self._without & {TAIL, APART}}
        if "buckets" in self._without and learner.bucket != FLEET:
            lines = {}
        if "wander" in self._without:
            for name, line in lines.items():
                still = Wander((line.scan.wander.tick, *[0.0] * (len(line.scan.wander.variances) - 1)))
                lines[name] = replace(line, scan=Scan.of(still, line.usual))
        return replace(found, lines=lines)


@contextmanager
def _constants(without: Sequence[str]) -> Iterator[None]:
    floor, by_tokens = courses.FLOOR_FACTOR, yardstick.BY_TOKENS
    caution, by_pairs = wander.CAUTION, wander.CAUTION_BY_PAIRS
    yardstick.BY_TOKENS = frozenset() if "tokens" in without else by_tokens
    courses.FLOOR_FACTOR = 0.0 if "floors" in without else floor
    wander.CAUTION = 0.0 if "caution" in without else caution
    wander.CAUTION_BY_PAIRS = 0.0 if "caution" in without else by_pairs
    try:
        yield
    finally:
        courses.FLOOR_FACTOR, yardstick.BY_TOKENS = floor, by_tokens
        wander.CAUTION, wander.CAUTION_BY_PAIRS = caution, by_pairs
