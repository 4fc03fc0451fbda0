"""One run on the trial node: configuration applied, quality gate asked, engine warm, idle and empty, workload replayed.

Guarantee: every run, the default's too, has the same start. A weight format that fails the quality gate is not
replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.studies import Measurement, StudyCreate
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import QUANTIZATION, Quantization
from tuner.replay.completion import pool_samples
from tuner.replay.replay import ReplayResult
from tuner.search import quality_gate
from tuner.search.objective import Assessment, assess, crashed, needed_quantiles
from tuner.study.trial_node import TrialNode
from tuner.workload.prompt import PromptMaker
from tuner.workload.trace import workload_of

_PRIME_S = 8.0


@dataclass(frozen=True)
class Measured:
    """One run: replay, assessment, the quality gate's word; or the error that kept it from being measured."""

    assessment: Assessment
    result: ReplayResult | None = None
    measurement: Measurement | None = None
    quality: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def failed(cls, error: str) -> Measured:
        return cls(crashed(), error=error)


class Bench:
    """A trial node with a workload and the text to replay it with. `held_out`: text for the quality gate."""

    def __init__(
        self,
        node: TrialNode,
        spec: StudyCreate,
        workload: Workload,
        corpus: Sequence[int],
        *,
        prime: Workload | None = None,
        held_out: Sequence[int] = (),
    ) -> None:
        self.node, self._spec, self._workload, self._corpus = node, spec, workload, corpus
        self._prime = prime or workload_of([], block_size=workload.block_size)
        self._probing = quality_gate.held_out_prompts(held_out)
        self._reference: list[str] = []
        self._shares: dict[str, float] = {}
        self._runs = 0

    def measure(self, knobs: Mapping[str, Any], *, salt: int) -> Measured:
        """Runs with the same `salt` replay the same text. Raises TailwrightError for what cannot be measured."""
        node = self.node
        gate, excess = self._apply(knobs)
        if excess.get(quality_gate.TOP1, 0.0) > 0:
            return Measured(Assessment(None, excess), quality=gate)
        self._runs += 1
        node.warm_up(self._corpus, salt=-self._runs)
        node.drain()
        # Without a reset, only text of its own keeps a replay from the cache of the one before.
        text = salt if node.reset_cache() else 1000 + self._runs
        maker = PromptMaker(self._corpus, block_size=self._workload.block_size, salt=text)
        if self._prime.requests:
            node.run(self._prime, maker.prompts(self._prime), deadline_s=_PRIME_S)
            node.drain()
        span_s = self._workload.requests[-1].timestamp / 1000.0
        result = node.run(self._workload, maker.prompts(self._workload), deadline_s=2.0 * span_s + 5.0)
        node.drain()
        measurement = result.measurement(needed_quantiles(self._spec))
        if measurement.errors == measurement.requests:
            raise BadRequest(f"every request failed, the first with: {result.errors[0].error}")
        return Measured(assess(measurement, self._spec, excess), result, measurement, gate)

    def _apply(self, knobs: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
        """Apply `knobs`; what the gate reports of their weight format, and its violations. Formats are asked once."""
        format_, plain = str(knobs[QUANTIZATION]), Quantization.NONE.value
        if not self._probing:
            self.node.apply(knobs)
            return {}, {}
        if format_ != plain and not self._reference:
            self.node.apply({**knobs, QUANTIZATION: plain})
            self._reference = self._answers()
        self.node.apply(knobs)
        if format_ == plain:
            # Not on the first run: what production runs may be slow, and any other setting answers the same.
            if self._runs and not self._reference:
                self._reference = self._answers()
            return {}, {}
        if format_ not in self._shares:
            self._shares[format_] = quality_gate.agreement(self._reference, self._answers())
        share = self._shares[format_]
        return quality_gate.report(share, len(self._probing)), {quality_gate.TOP1: quality_gate.violation(share)}

    def _answers(self) -> list[str]:
        # Blocks that another weight format left in the cache would answer for it.
        self.node.reset_cache()
        return quality_gate.next_tokens(
            self.node.url, self.node.model, self._probing, token_ids=self.node.gives_token_ids
        )


def together(runs: Sequence[ReplayResult], spec: StudyCreate) -> Measurement:
    """Several replays as one: quantiles over all their samples."""
    timings = [timing for run in runs for timing in run.timings]
    whole = ReplayResult(timings, sum(run.duration_s for run in runs), 0.0, samples=pool_samples(timings))
    return whole.measurement(needed_quantiles(spec))
