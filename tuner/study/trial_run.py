"""One run on the trial node: configuration applied, quality gate asked, engine warm, idle and empty, workload replayed.

Guarantee: every run, the default's too, has the same start. A weight format that fails the quality gate is not
replayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.knob_schema import OF_LOADS
from controlplane.contract.bodies.studies import (
    StudyCreate,
    Trial,
    TrialState,
)
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.measurement import CarriedLoad, Measurement
from tuner.capacity.bracket import first_load, next_load
from tuner.capacity.carried_load import Kept, Replayed, carried_load, fit_of, largest_kept
from tuner.replay.lost_cause import Bound
from tuner.replay.replay import ReplayResult
from tuner.search.hopeless import broken
from tuner.search.objective import Assessment, assess, crashed, good_by, needed_quantiles
from tuner.study.format_gate import FormatGate
from tuner.study.trial_node import TrialNode
from tuner.workload.capture import LEAST_REQUESTS, Slice
from tuner.workload.prompt import PromptMaker
from tuner.workload.prompt_dealer import PromptDealer, TokenPrompt, described
from tuner.workload.rescale import cut, scale_rate, shuffle_gaps

_PRIME_S = 8.0
RATES = (1.0, 0.9, 1.1)
"""Of the captured rate, heat by heat: a winner is to win at the load's ordinary ups and downs, too."""


@dataclass(frozen=True)
class Measured:
    """One run: assessment, measurement, single values by metric, the quality gate's word; or what kept it from being
    measured. `ended_early`: why not all of its requests were replayed. `refused`: why the quality gate let none be.
    """

    assessment: Assessment
    measurement: Measurement | None = None
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    quality: dict[str, float] = field(default_factory=dict)
    error: str = ""
    ended_early: str = ""
    refused: str = ""

    @classmethod
    def of(cls, trial: Trial) -> Measured:
        """One that was reported."""
        found = Assessment(trial.objective_s, trial.violations, trial.also_s)
        failed = trial.error if trial.state is TrialState.FAILED else ""
        return cls(found, trial.measurement, trial.samples, trial.quality, failed)

    @classmethod
    def failed(cls, error: str) -> Measured:
        return cls(crashed(), error=error)


class Bench:
    """A trial node with a workload and the text to replay it with. `held_out`: text for the quality gate."""

    def __init__(
        self,
        node: TrialNode,
        spec: StudyCreate,
        seen: Slice,
        fresh: Slice,
        corpus: Sequence[int],
        *,
        held_out: Sequence[int] = (),
        own: Sequence[TokenPrompt] = (),
    ) -> None:
        """`seen`: the slice of the traffic that the search replays; `fresh`: the one that finalists alone do. `own`:
        the study's prompts, replayed in place of the text."""
        self.node, self._spec, self._seen, self._fresh, self._corpus = node, spec, seen, fresh, corpus
        self._own = own
        self._gate = FormatGate(node, spec, held_out)
        self._runs = self._replays = 0

    def measure(self, knobs: Mapping[str, Any], *, heat: int | None = None, bounds: Sequence[Bound] = ()) -> Measured:
        """Runs of the same `heat` replay the same requests, at the same times, with the same text; without one it is a
        trial of the search, which ends early where one of `bounds` cannot be kept any more. Raises TailwrightError for
        what cannot be measured.
        """
        node = self.node
        gate = self._gate.apply(knobs, is_first=not self._runs)
        if gate.refused:
            return Measured(Assessment(None, gate.excess), quality=gate.told, refused=gate.refused)
        piece = self._seen if heat is None else self._fresh
        self._runs += 1
        node.warm_up(self._corpus, salt=-self._runs)
        early = ""
        if self._spec.seeks(*OF_LOADS):
            result, carried = self._at_loads(piece, heat, bounds)
        else:
            workload, carried = piece.workload if heat is None else rearranged(piece.workload, heat), None
            result = self._replayed(piece, workload, piece.lead_in, heat, bounds)
            if result.lost is not None:
                early = early_text(result.lost, len(result.timings), len(workload.requests) - piece.lead_in)
        measurement = result.measurement(needed_quantiles(self._spec), good_by(self._spec))
        measurement.carried = carried
        if measurement.errors == measurement.requests:
            raise BadRequest(f"every request failed, the first with: {result.errors[0].error}")
        found = assess(measurement, self._spec, gate.excess)
        return Measured(found, measurement, result.samples, gate.told, ended_early=early)

    @property
    def asked_s(self) -> float:
        """Seconds that the quality gate has asked for, all in all."""
        return self._gate.asked_s

    def described(self) -> dict[str, Any]:
        """What the study's own prompts come to in the search's slice; empty without any."""
        if not self._own:
            return {}
        dealer, workload = PromptDealer(self._own), self._seen.workload
        return described(dealer, dealer.prompts(workload), workload.block_size)

    def _replayed(
        self, piece: Slice, workload: Workload, lead_in: int, heat: int | None, bounds: Sequence[Bound]
    ) -> ReplayResult:
        """From an idle engine and the cache that `piece` would find; the first requests are not measured."""
        node = self.node
        node.drain()
        self._replays += 1
        # Without a reset, only text of its own keeps a replay from the cache of the one before.
        text = (0 if heat is None else 1 + heat) if node.reset_cache() else 1000 + self._replays
        maker: PromptDealer | PromptMaker
        if self._own:
            maker = PromptDealer(self._own, salt=text)
        else:
            maker = PromptMaker(self._corpus, block_size=workload.block_size, salt=text)
        if piece.prime.requests:
            node.run(piece.prime, maker.prompts(piece.prime), deadline_s=_PRIME_S)
            node.drain()
        span_s, drafts = workload.requests[-1].timestamp / 1000.0, node.drafts()
        result = node.run(
            workload, maker.prompts(workload), deadline_s=2.0 * span_s + 5.0, bounds=bounds, lead_in=lead_in
        )
        node.drain()
        result.drafts = since(drafts, node.drafts())
        return result

    def _at_loads(self, piece: Slice, heat: int | None, bounds: Sequence[Bound]) -> tuple[ReplayResult, CarriedLoad]:
        """Replays at loads around the largest that keeps the limits: the one at the largest that was kept, and that
        load. Where another objective is measured at the slice's own load, the first is at that, and is the one."""
        spec, whole = self._spec, piece.workload.requests
        if not whole[-1].timestamp:
            raise BadRequest("the captured requests all came at once: there is no rate to raise or lower")
        rate_per_s = len(whole) / (whole[-1].timestamp / 1000.0)
        kept = Kept(spec.constraints, spec.max_lost_share)
        results: list[ReplayResult] = []
        replays: list[Replayed] = []
        at_own = any(one.objective not in OF_LOADS for one in spec.objectives)
        begins = list(dict.fromkeys([1.0, first_load(heat)] if at_own else [first_load(heat)]))
        while len(replays) < spec.load_replays:
            load = begins.pop(0) if begins else next_load(fit_of(replays))
            if load is None:
                break
            workload = at_load(piece.workload, load, heat, len(replays))
            own = bounds if at_own and not replays else broken(spec.constraints)
            lead_in = math.floor(piece.lead_in * len(workload.requests) / len(whole))
            results.append(self._replayed(piece, workload, lead_in, heat, own))
            replays.append(Replayed(load, results[-1].timings, kept, ended_early=results[-1].lost is not None))
        tokens = sum(request.output_length for request in whole) / len(whole)
        found = carried_load(replays, times=spec.load, rate_per_s=rate_per_s, seed=spec.seed, tokens_per_request=tokens)
        return results[0 if at_own else largest_kept(replays, found, spec.load)], found


def since(before: tuple[int, int] | None, now: tuple[int, int] | None) -> tuple[int, int] | None:
    """What counters have grown by; None where either was not told, or the engine was started again between."""
    if before is None or now is None or now < before:
        return None
    return now[0] - before[0], now[1] - before[1]


def early_text(lost: Bound, requests: int, planned: int) -> str:
    """Why a run ended after so many of its requests."""
    return (
        f"ended after {requests} of {planned} requests: {lost.metric} p{100 * lost.q:g} could no longer come to "
        f"{duration_text(lost.at_most_s)}"
    )


def rearranged(workload: Workload, heat: int) -> Workload:
    """A heat's arrivals: the gaps in another order, and the rate as captured, a tenth less or a tenth more."""
    return scale_rate(shuffle_gaps(workload, heat), RATES[heat % len(RATES)])


def at_load(workload: Workload, load: float, heat: int | None, replay: int) -> Workload:
    """Gaps in another order in each replay, so that it is not one order of arrivals which decides; the search's first
    replay has them as they came. Below the load of the slice there are fewer requests, so that it lasts no longer."""
    if heat is not None or replay:
        workload = shuffle_gaps(workload, 1000 * (0 if heat is None else 1 + heat) + replay)
    wanted = max(LEAST_REQUESTS, math.ceil(len(workload.requests) * min(1.0, load)))
    return scale_rate(cut(workload, 0, wanted), load)


def together(runs: Sequence[Measured], spec: StudyCreate) -> Measurement:
    """Several runs as one: quantiles over all their single values. Each was measured."""
    told = [run.measurement for run in runs if run.measurement is not None]
    samples: dict[str, list[float]] = {}
    for run in runs:
        for metric, values in run.samples.items():
            samples.setdefault(metric, []).extend(values)
    whole = ReplayResult([], sum(one.duration_s for one in told), 0.0, samples=samples)
    counts = {"requests": sum(one.requests for one in told), "errors": sum(one.errors for one in told)}
    return whole.measurement(needed_quantiles(spec)).model_copy(update=counts)
