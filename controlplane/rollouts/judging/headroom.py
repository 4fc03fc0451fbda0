"""Whether there is room in the arms of a canary: requests that wait say little of a configuration (pure).

Where both arms are overloaded, how long a request waits is the sum of all that came before it: two equal arms drift
apart without limit. Waiting is then not compared, and no good verdict is given. Where one arm has room and the other
has not, the difference is just what is looked for. Cache hits that moved to other nodes are watched the same way:
within a stratum they do no harm, but they make all that waits wait longer, and a canary that lost them, by a balancer
or by its configuration, is not shown to be good.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from controlplane.contract.metrics import PREFILL, QUEUE, CacheClass
from controlplane.contract.share_text import share_text
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import Window

OVERLOADED = 10.0
"""Mean wait over mean prefill from which an arm has no room: a queue at nine tenths of what its node can serve."""
MINUTE_TICKS = 12
LOST_HITS, FEWER_HITS = 0.1, 0.05
"""Of the canary's requests: so many fewer hits than before, beside the control's, are waited for; with so many fewer
waiting is not compared."""
LEAST_REQUESTS = 40

METRICS = (QUEUE.short, PREFILL.short)


class Minute(BaseModel):
    """Sums of the newest ticks of one arm: seconds waited and of prefill, requests, and those of them that hit."""

    waited_s: list[float] = []
    prefill_s: list[float] = []
    requests: list[int] = []
    hits: list[int] = []

    def add(self, queue: Mapping[str, Sketch], prefill: Mapping[str, Sketch]) -> None:
        count = sum(sketch.count for sketch in prefill.values())
        hits = sum(sketch.count for name, sketch in prefill.items() if name.endswith(f" {CacheClass.HIT.value}"))
        for kept, fresh in (
            (self.waited_s, sum(sketch.total for sketch in queue.values())),
            (self.prefill_s, sum(sketch.total for sketch in prefill.values())),
        ):
            kept.append(round(fresh, 6))
            del kept[:-MINUTE_TICKS]
        for counted, number in ((self.requests, count), (self.hits, hits)):
            counted.append(number)
            del counted[:-MINUTE_TICKS]

    @property
    def overloaded(self) -> bool:
        prefill_s = sum(self.prefill_s)
        return prefill_s > 0.0 and sum(self.waited_s) >= OVERLOADED * prefill_s

    @property
    def hit_share(self) -> float | None:
        requests = sum(self.requests)
        return sum(self.hits) / requests if requests >= LEAST_REQUESTS else None


class Room(BaseModel):
    """Of both arms. JSON in, JSON out."""

    control: Minute = Minute()
    canary: Minute = Minute()
    hits_apart: float = 0.0  # The canary's share of hits less the control's, before.
    tells_hits: bool = False  # Whether there were any.
    ticks: int = 0
    full_ticks: int = 0  # Of them with both arms overloaded.

    def learn(self, windows: list[dict[str, Window]]) -> None:
        """The time before: how far the shares of hits usually are apart."""
        requests, hits = [0, 0], [0, 0]
        for tick in windows:
            window = tick.get(PREFILL.short, Window())
            for arm, sketches in enumerate((window.control, window.canary)):
                requests[arm] += sum(sketch.count for sketch in sketches.values())
                hits[arm] += sum(one.count for name, one in sketches.items() if name.endswith(CacheClass.HIT.value))
        if min(requests) >= LEAST_REQUESTS:
            self.hits_apart = hits[1] / requests[1] - hits[0] / requests[0]
            self.tells_hits = sum(hits) > 0

    def feed(self, windows: Mapping[str, Window]) -> bool:
        """Take one tick; whether waiting may be compared in it."""
        queue, prefill = windows.get(QUEUE.short, Window()), windows.get(PREFILL.short, Window())
        self.control.add(queue.control, prefill.control)
        self.canary.add(queue.canary, prefill.canary)
        full = self.control.overloaded and self.canary.overloaded
        self.ticks += 1
        self.full_ticks += full
        unknown = self.tells_hits and None in (self.control.hit_share, self.canary.hit_share)
        return not full and not unknown and self.lost_hits <= FEWER_HITS

    @property
    def overloaded(self) -> bool:
        """Whether both arms were, for half of the time or now."""
        return 2 * self.full_ticks > self.ticks or (self.control.overloaded and self.canary.overloaded)

    @property
    def lost_hits(self) -> float:
        """How much smaller the canary's share of hits is, beside the control's, than it was before; 0 if not known."""
        control, canary = self.control.hit_share, self.canary.hit_share
        return 0.0 if control is None or canary is None else max(0.0, control + self.hits_apart - canary)

    def holds_back(self) -> list[str]:
        """Why no good verdict is given."""
        found = ["both arms are overloaded: what waits says nothing of the configuration"] if self.overloaded else []
        if self.lost_hits > LOST_HITS:
            found.append(
                f"the canary lost cache hits, beside the control, of {share_text(self.lost_hits)} of its requests"
            )
        return found
