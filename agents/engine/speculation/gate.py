"""How many tokens to draft for each request, so that the step's tokens per second are most; none when drafting loses.

What it goes by, all observed: how often the request's drafts were kept at each place (until it has some of its own: all
requests'), what a step costs with more or fewer drafts at this number of requests, what drafting itself costs, and, for
drafters that must first take in what they missed, how many tokens are still to come.

Guarantees: deterministic given its inputs in their order (it reads no clock); never more than asked for; it decides how
much is drafted and nothing else, so that text never depends on it. What it keeps for a request hangs on the request.
- A request that was shut off is tried again after 16 tokens, or as many as keep the cost of trials under 3 %, then
  after twice as many each time it fails, at most 512.
- No start is bad for ever. What a request is judged by at first is what all before it have shown, so where requests are
  shorter than a pause none would be tried again. Hence probes: as many steps after the last trial of any request while
  no drafts pay, again twice as many each time, at most 512, the next request is tried whatever its own pause. A probe
  lets what was seen before count for less, so that a few of them outweigh it, whatever it was: where drafts pay from
  some step on, requests draft again after at most `OPEN_WITHIN` more.
- Where drafts never pay, a trial costs at most four drafts of two tokens, and one draft where two would lose even if
  kept: at most 3 % of the time in the long run, or one part in 512 of what such a draft costs for each request that is
  long enough for trials of its own.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_low

from agents.engine.speculation.acceptance import Acceptance, expected_extra
from agents.engine.speculation.step_costs import FORGET_AFTER, StepCosts

REVIEW_EVERY = 4  # Drafts of a request between two choices of its length.
TRIAL_LENGTH = 2  # Tokens of the drafts by which a request that was shut off is tried again.
TRIAL_COST = 0.03  # Most of a request's time that such trials may cost.
TRIAL_EVERY = 64  # Drafts of a request at less than full length between two trials.
FIRST_PAUSE, LONGEST_PAUSE = 16, 512  # Tokens without drafts before a trial.
MEASURE_EVERY = 64  # Steps between two without any drafts, which show what drafting is compared with.
OPEN_WITHIN = 5 * LONGEST_PAUSE  # Five probes.
MARGIN = 1.03  # A change must promise 3 % more tokens per second: estimates waver by less than that.
_OWN_MEMORY, _COMMON_MEMORY = 0.95, 0.98
_COMMON_STRENGTH = 2.0
_TRUSTED = 3  # Earlier observations that still count in a probe: fewer than it gives.


def _own_acceptance() -> Acceptance:
    return Acceptance(_OWN_MEMORY)


@dataclass(slots=True)
class Track:
    """What the gate knows of one request. length: tokens to draft now, 0 is off."""

    acceptance: Acceptance = field(default_factory=_own_acceptance)
    length: int = 0
    settled: int = -1  # The length chosen last; -1: none yet.
    drafts: int = 0  # Since the length was chosen.
    drafts_since_trial: int = 0
    resume_at: int = 0  # While off: outputs at which it is tried again.
    pause: int = FIRST_PAUSE
    on_trial: bool = False
    is_probe: bool = False  # The trial came before the request's own pause was over.


@dataclass
class Decisions:
    """How often each was decided."""

    on: int = 0
    off: int = 0
    length_changed: int = 0
    trials: int = 0
    probes: int = 0
    steps_measured: int = 0

    def counts(self) -> dict[str, int]:
        return dict(vars(self))


def best_length(extra: Sequence[float], seconds: Sequence[float], tokens: float, current: int) -> int:
    """The draft length k that gives most tokens per second, (tokens + extra[k]) / seconds[k].

    extra and seconds: by length, from 0. `current` stays unless another promises `MARGIN` times as much.
    """
    rates = [(tokens + more) / cost for more, cost in zip(extra, seconds, strict=True)]
    best = max(range(len(rates)), key=rates.__getitem__)
    if 0 <= current < len(rates) and rates[best] < MARGIN * rates[current]:
        return current
    return best


class Gate:
    """One for an engine. Calls in a step: `begin`, then `allow` for each request, then `outcome`s, then `observe`.

    A request's length is chosen as if the requests that draft beside it were like it: their drafts share the passes of
    a draft model and the step that verifies them.
    """

    def __init__(self) -> None:
        self.costs = StepCosts()
        self.decisions = Decisions()
        self._common = Acceptance(_COMMON_MEMORY)
        self._pass_seconds: deque[float] = deque(maxlen=15)
        self._take_in_seconds: deque[float] = deque(maxlen=15)
        self._mean_outputs: float | None = None
        self._requests = self._limit = 0
        self._off = 0  # Requests found shut off in this step, or in the last one in which any might draft.
        self._alike = 1
        self._measuring = False
        self._steps = 0
        self._elapsed_s = 0.0
        self._probe_at, self._probe_pause = 0, FIRST_PAUSE
        self._taken_in_at = (0, 0.0)  # Steps and seconds when a drafter last took something in.

    def begin(self, requests: int, limit: int) -> None:
        """A step with so many running requests and this draft length by the knob begins."""
        self._requests, self._limit = requests, limit
        self._steps += 1
        age = self.costs.age(requests) if requests else 0
        self._measuring = age is None or age >= MEASURE_EVERY
        if not self._measuring:
            self._alike = max(1, requests - self._off)
            self._off = 0

    def is_open(self, track: Track, outputs: int) -> bool:
        """Whether the request may draft in this step at all. To be asked once for each request that decodes."""
        if self._measuring:
            return False
        is_off = self.is_shut(track, outputs) and not self._probes(track)
        self._off += is_off
        return not is_off

    def is_shut(self, track: Track, outputs: int) -> bool:
        """Whether the request is shut off and its pause is not over."""
        return track.length == 0 and outputs < track.resume_at

    def allow(self, track: Track, outputs: int) -> int:
        """Most tokens to draft for an open request that has given so many outputs."""
        if track.settled == 0 and track.length == 0:
            self._try_again(track)
        elif track.settled < 0 or track.drafts >= REVIEW_EVERY or (track.on_trial and self._is_hopeless(track)):
            self._review(track, outputs)
            if track.length == 0 and self._probes(track):
                self._try_again(track)
        return min(track.length, self._limit)

    def outcome(self, track: Track, drafted: int, accepted: int) -> None:
        """The request's drafts were verified."""
        track.acceptance.observe(drafted, accepted)
        self._common.observe(drafted, accepted)
        track.drafts += 1
        track.drafts_since_trial += 1

    def observe(self, verify_s: float, draft_s: float, drafts: Sequence[int], taken_in: int) -> None:
        """A step of decodes alone took so long, drafting apart. drafts: how many each request had; taken_in: tokens
        that the drafter took in besides."""
        passes = max(drafts)
        self._elapsed_s += verify_s + draft_s
        self.costs.observe(len(drafts), sum(drafts), verify_s)
        self.decisions.steps_measured += self._measuring
        if taken_in:
            known = median_low(self._pass_seconds) * passes if self._pass_seconds else 0.0
            self._take_in_seconds.append(max(0.0, draft_s - known) / taken_in)
            self._taken_in_at = self._steps, self._elapsed_s
        elif passes:
            self._pass_seconds.append(draft_s / passes)

    def finished(self, outputs: int) -> None:
        """A request ended by itself after so many outputs."""
        mean = self._mean_outputs
        self._mean_outputs = outputs if mean is None else mean + 0.1 * (outputs - mean)

    def is_worth_taking_in(self, track: Track, tokens: int, outputs_left: int) -> bool:
        """Whether a drafter should take in so many tokens to draft for this request. The outputs still to come are at
        most `outputs_left`, and expected to be as many as requests had on average (as if each token were the last with
        the same probability). Where it does not seem to, it is tried once in as long as keeps that under `TRIAL_COST`
        of the time, but in no more steps than after which costs are forgotten: a bad start may have made it seem so."""
        if self._requests == 0 or self.costs.age(self._requests) is None or not self._take_in_seconds:
            return True
        expected = min(outputs_left, self._mean_outputs or outputs_left)
        extra, seconds = self._prospect(track)
        rates = [(self._requests + more) / cost for more, cost in zip(extra, seconds, strict=True)]
        best = max(range(len(rates)), key=rates.__getitem__)
        own_extra = extra[best] / self._alike
        saved_s = expected / (1 + own_extra) * seconds[best] * (rates[best] / rates[0] - 1)
        needed_s = tokens * median_low(self._take_in_seconds)
        steps, elapsed_s = self._taken_in_at
        waited = self._elapsed_s - elapsed_s >= needed_s / TRIAL_COST or self._steps - steps >= FORGET_AFTER
        return saved_s > needed_s or waited

    def _probes(self, track: Track) -> bool:
        """Whether this request is to be tried whatever its own pause; if so, none else until that trial is over."""
        if self._measuring or self._steps < self._probe_at:
            return False
        self._probe_at = self._steps + LONGEST_PAUSE  # The trial may end with its request.
        track.settled, track.is_probe = 0, True
        self.decisions.probes += 1
        self._common.weaken(_TRUSTED)
        self.costs.weaken(self._requests)
        for seconds in (self._pass_seconds, self._take_in_seconds):
            while len(seconds) > _TRUSTED:
                seconds.popleft()
        return True

    def _try_again(self, track: Track) -> None:
        track.acceptance.weaken(1.0)
        track.on_trial = True
        track.length, track.drafts, track.drafts_since_trial = min(TRIAL_LENGTH, self._limit), 0, 0
        self.decisions.trials += 1

    def _review(self, track: Track, outputs: int) -> None:
        if 0 < track.length < self._limit and track.drafts_since_trial >= TRIAL_EVERY:
            track.length, track.drafts, track.drafts_since_trial = self._limit, 0, 0
            self.decisions.trials += 1
            return
        extra, seconds = self._prospect(track)
        chosen = best_length(extra, seconds, self._requests, track.settled)
        track.on_trial = False
        if chosen == 0:
            pause = self._trial_pause(seconds)
            if track.is_probe:  # Which leaves the request's own pauses as they are.
                track.resume_at = max(track.resume_at, outputs + FIRST_PAUSE)
            else:
                track.resume_at = outputs + max(track.pause, pause)
                track.pause = min(2 * track.pause, LONGEST_PAUSE)
            if track.settled == 0 or not self._probe_at:
                self._probe_at = self._steps + max(self._probe_pause, pause)
                self._probe_pause = min(2 * self._probe_pause, LONGEST_PAUSE)
            self.decisions.off += track.settled != 0
            self._off += 1
            self._alike = max(1, self._alike - 1)
        else:
            track.pause = self._probe_pause = FIRST_PAUSE
            self._probe_at = self._steps + FIRST_PAUSE  # The gate is not shut: no probe as long as drafts pay.
            self.decisions.on += track.settled <= 0
            self.decisions.length_changed += 0 < track.settled != chosen
        track.length, track.settled, track.is_probe = chosen, chosen, False
        track.drafts = 0

    def _trial_pause(self, seconds: list[float]) -> int:
        """Tokens between trials so that their loss, if all are in vain, is `TRIAL_COST` of the time."""
        drafts = 1 if self._is_all_lost(seconds[0]) else REVIEW_EVERY
        loss = drafts * max(0.0, seconds[min(TRIAL_LENGTH, self._limit)] - seconds[0])
        return min(LONGEST_PAUSE, int(loss / (TRIAL_COST * seconds[0])))

    def _is_hopeless(self, track: Track) -> bool:
        """Whether drafts of a trial would lose if every one were kept."""
        return track.drafts > 0 and self._is_all_lost(self.costs.seconds(self._requests, 0))

    def _is_all_lost(self, plain_s: float) -> bool:
        length = min(TRIAL_LENGTH, self._limit)
        a_pass = min(self._pass_seconds, default=0.0)
        # The least that such a step has taken: whatever disturbs a step only makes it longer.
        least_s = self.costs.least_seconds(self._requests, length)
        return least_s is not None and least_s + a_pass * length > (self._requests + length) / self._requests * plain_s

    def _prospect(self, track: Track) -> tuple[list[float], list[float]]:
        """Tokens that drafts add and the step's seconds, for each length from 0 to the knob's."""
        alike, requests, costs = self._alike, self._requests, self.costs
        extra = [alike * more for more in expected_extra(self._shares(track, self._limit))]
        a_pass = median_low(self._pass_seconds) if self._pass_seconds else 0.0
        return extra, [costs.seconds(requests, alike * k) + a_pass * k for k in range(self._limit + 1)]

    def _shares(self, track: Track, length: int) -> list[float]:
        common, own = self._common, track.acceptance
        return [own.share(place, common.share(place), _COMMON_STRENGTH) for place in range(length)]
