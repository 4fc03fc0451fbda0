"""The quality gate at one trial node: each weight format is asked once, against the unquantized model of the same node.

Guarantee: a format passes by its next tokens and by its log-probabilities (`quality_gate`, `logprob_drop`), each by the
bound of what was seen; what the unquantized model says is asked once, before any replay's cache could answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import Unavailable
from controlplane.contract.knobs import QUANTIZATION, Quantization
from controlplane.contract.share_text import share_text
from tuner.search import logprob_drop, quality_gate
from tuner.search.logprob_drop import DROP, LogprobDrop
from tuner.search.quality_gate import POSITIONS, TOP1, Agreement
from tuner.study.trial_node import TrialNode

log = logging.getLogger(__name__)
PLAIN = Quantization.NONE.value


@dataclass(frozen=True)
class GateWord:
    """What the gate says of a configuration: figures as a trial reports them, violations by limit, and why it is not
    replayed; all empty where there is nothing to ask."""

    told: dict[str, float] = field(default_factory=dict)
    excess: dict[str, float] = field(default_factory=dict)
    refused: str = ""


class FormatGate:
    """`held_out`: text that no replay uses, as tokens; without any, everything passes. `asked_s`: seconds spent on
    asking, all in all: that is once, and no part of what a run takes."""

    def __init__(self, node: TrialNode, spec: StudyCreate, held_out: Sequence[int]) -> None:
        self._node, self._spec = node, spec
        self.asked_s = 0.0
        self._probing = quality_gate.dealt(quality_gate.held_out_prompts(held_out))
        passages = self._probing[POSITIONS - 1 :: POSITIONS]  # Each passage's longest prompt is all of it.
        asks = spec.most_logprob_drop > 0 and len(passages) >= logprob_drop.FEWEST
        self._passages = passages if asks else []
        self._tokens: list[str] = []
        self._logprobs: list[float] = []
        self._words: dict[str, GateWord] = {}

    def apply(self, knobs: Mapping[str, Any], *, is_first: bool) -> GateWord:
        """Give the node `knobs`, and judge their weight format. `is_first`: nothing was replayed on it yet. Raises what
        applying raises, and Unavailable where the engine does not answer."""
        format_ = str(knobs[QUANTIZATION])
        if not self._probing:
            self._node.apply(knobs)
            return GateWord()
        if format_ != PLAIN and not self._tokens:
            self._node.apply({**knobs, QUANTIZATION: PLAIN})
            self._learn()
        self._node.apply(knobs)
        if format_ == PLAIN:
            # Not on the first run: what production runs may be slow, and any other setting answers the same.
            if not is_first and not self._tokens:
                self._learn_early()
            return GateWord()
        if format_ not in self._words:
            # Blocks that another weight format left in the cache would answer for it.
            self._node.reset_cache()
            with self._asking():
                self._words[format_] = self._judged()
        return self._words[format_]

    def _learn_early(self) -> None:
        """An unquantized configuration wants none of it: where the engine does not answer, its trial goes on."""
        try:
            self._learn()
        except Unavailable as error:
            log.warning("%s: asked again when a quantized configuration wants it: %s", self._node.name, error.message)

    def _learn(self) -> None:
        """What the unquantized model says."""
        self._node.reset_cache()
        with self._asking():
            logprobs = self._asked_logprobs()
            self._tokens, self._logprobs = self._asked_tokens(0, len(self._probing)), logprobs

    @contextmanager
    def _asking(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.asked_s += time.monotonic() - began

    def _judged(self) -> GateWord:
        """Of what the node runs. What fails by its next tokens is not asked further."""
        spec = self._spec
        found = quality_gate.compared(self._tokens, self._asked_tokens, spec.least_agreement)
        excess = {TOP1: found.violation(spec.least_agreement)}
        if excess[TOP1] > 0:
            return GateWord(found.told, excess, agreement_refused(found, spec))
        if not self._passages:
            return GateWord(found.told, excess)
        drop = LogprobDrop.between(self._logprobs, self._asked_logprobs())
        excess[DROP] = drop.violation(spec.most_logprob_drop)
        return GateWord(found.told | drop.told, excess, drop_refused(drop, spec) if excess[DROP] > 0 else "")

    def _asked_tokens(self, first: int, last: int) -> list[str]:
        node = self._node
        return quality_gate.next_tokens(node.url, node.model, self._probing[first:last], token_ids=node.gives_token_ids)

    def _asked_logprobs(self) -> list[float]:
        return logprob_drop.passage_logprobs(self._node.url, self._node.model, self._passages)


def agreement_refused(found: Agreement, spec: StudyCreate) -> str:
    return (
        f"not replayed: {share_text(found.share, 1)} of {found.samples} next tokens are those of the unquantized model "
        f"({share_text(found.low, 1)} at least), and {share_text(spec.least_agreement, 1)} are wanted"
    )


def drop_refused(found: LogprobDrop, spec: StudyCreate) -> str:
    return (
        f"not replayed: the log-probability of held-out text drops by {found.mean:.3f} nats a token, by up to "
        f"{found.high:.3f}, and {spec.most_logprob_drop:g} is permitted"
    )
