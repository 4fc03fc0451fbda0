"""How much memory a configuration needs on a node, by the node's own figures (pure).

Guarantees: nothing is supposed; a term whose figures the node has not told is not known and counts as nothing. So what
is needed is a lower bound, and what is said not to fit cannot fit. It never falls when a numeric knob rises (a prefill
chunk of 0 is the largest). A configuration is refused only where it needs more than there is and more than what runs.

The terms are those by which vLLM sizes its own memory at its start: weights, KV cache, and the largest step that its
limits allow, whose activations and logits are not held at the same time. A KV cache that the engine makes of the room
that is left gives way to the others, down to the least with which it starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from controlplane.contract.byte_text import byte_text
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    QUANTIZATION,
    difference,
    largest,
)
from controlplane.contract.reports.node_memory import NodeMemory

_CACHE = "KV cache"


class Fit(StrEnum):
    """Whether a configuration fits the memory of a node."""

    FITS = "fits"  # By all that it tells.
    DOES_NOT_FIT = "does not fit"  # What is known to be needed is more than there is.
    NOT_KNOWN = "not known"  # The node does not tell enough.


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by term, None where not told; `old_weights`: held beside the new ones while the format changes, when no
    step runs. `cache_now`: where the KV cache would be another, the one that runs. `runtime`: what few engines tell."""

    limit: int | None
    weights: int | None
    draft_weights: int | None
    kv_cache: int | None
    activations: int | None
    logits: int | None
    runtime: int | None = None
    cache_now: int | None = None
    old_weights: int = 0

    @property
    def terms(self) -> dict[str, int | None]:
        """In words, each with its bytes; activations and logits are of the largest step."""
        draft = {} if self.draft_weights == 0 else {"draft weights": self.draft_weights}
        runtime = {} if self.runtime is None else {"runtime": self.runtime}
        step = {"activations": self.activations, "logits": self.logits}
        return {"weights": self.weights, **draft, _CACHE: self.kv_cache, **runtime, **step}

    @property
    def changes_most(self) -> bool:
        """Whether more is held while the format changes than in any step after it."""
        return self.old_weights > max(self.activations or 0, self.logits or 0)

    @property
    def beside_cache(self) -> int:
        """All but the KV cache, at least."""
        held = (self.weights or 0) + (self.draft_weights or 0) + (self.runtime or 0)
        return held + max(self.old_weights, self.activations or 0, self.logits or 0)

    @property
    def needed(self) -> int:
        """At least."""
        return self.beside_cache + (self.kv_cache or 0)

    @property
    def fit(self) -> Fit:
        if self.limit is not None and self.needed > self.limit:
            return Fit.DOES_NOT_FIT
        return Fit.NOT_KNOWN if self.limit is None or None in self.terms.values() else Fit.FITS

    @property
    def sentence(self) -> str:
        """The verdict, with its figures by term."""
        told = [f"{name} {self._figure(name, value)}" for name, value in self._held.items() if value is not None]
        if self.changes_most:
            told.append(f"the old weights beside the new {byte_text(self.old_weights)}")
        missing = [name for name, value in self.terms.items() if value is None]
        missing += ["how much there is"] if self.limit is None else []
        figures = f"at least {byte_text(self.needed)} ({', '.join(told)})" if told else "nothing that is told"
        limit = "" if self.limit is None else f" of {byte_text(self.limit)}"
        if self.fit is Fit.NOT_KNOWN:
            return f"whether it fits the memory is not known: it needs {figures}{limit}; not told: {', '.join(missing)}"
        return f"it {self.fit.value} the memory: it needs {figures}{limit}"

    @property
    def _held(self) -> dict[str, int | None]:
        """The terms that are held at once: of activations and logits the greater."""
        lesser = "logits" if (self.activations or 0) >= (self.logits or 0) else "activations"
        left_out = {"activations", "logits"} if self.changes_most else {lesser}
        return {name: value for name, value in self.terms.items() if name not in left_out}

    def _figure(self, name: str, value: int) -> str:
        if name != _CACHE or self.cache_now is None:
            return byte_text(value)
        return f"{byte_text(value)} instead of {byte_text(self.cache_now)}"


@dataclass(frozen=True)
class Refusal:
    """Why a configuration cannot go on a node: the knob that asks for most, and what would fit."""

    knob: str
    problem: str
    mend: str


def estimate(memory: NodeMemory, runs: Mapping[str, Any], wanted: Mapping[str, Any]) -> MemoryEstimate:
    """Of a configuration (JSON values by knob) on a node that runs `runs`; a term of a knob that neither has is not
    known."""
    wanted = {**_known(runs), **wanted}
    old, new = runs.get(QUANTIZATION), wanted.get(QUANTIZATION)
    changes = old is not None and old != new
    found = MemoryEstimate(
        limit=memory.limit_bytes,
        weights=memory.weights_bytes if old == new else memory.weights_bytes_by_format.get(str(new)),
        draft_weights=memory.draft_weights_bytes,
        kv_cache=memory.kv_cache_memory_bytes,
        activations=_times(memory.activation_bytes_per_token, _most_tokens(memory, wanted)),
        logits=_times(memory.logits_bytes_per_token, _most_logits(wanted)),
        runtime=memory.runtime_bytes,
        old_weights=(memory.weights_bytes or 0) if changes and memory.swap_holds_both else 0,
    )
    now, left = memory.kv_cache_memory_bytes, _left_for_cache(memory, found.beside_cache)
    return replace(found, kv_cache=left, cache_now=None if left == now else now)


def refusal(memory: NodeMemory, runs: Mapping[str, Any], wanted: Mapping[str, Any]) -> Refusal | None:
    """None where it fits, where that is not known, and where it needs no more than what runs."""
    whole = estimate(memory, runs, wanted)
    now = estimate(memory, runs, {**wanted, **_known(runs)}).needed
    if whole.fit is not Fit.DOES_NOT_FIT or whole.needed <= now:
        return None
    changed = [name for name in difference(wanted, runs, unreported=True) if name in KNOBS]
    without = {name: estimate(memory, runs, {**wanted, name: runs.get(name, _least(name))}).needed for name in changed}
    knob = min(without, key=lambda name: (without[name], name))
    return Refusal(knob, whole.sentence, _mend(memory, runs, wanted, knob))


def full_length_requests(memory: NodeMemory) -> int | None:
    """Requests of the greatest length that the KV cache holds at once; None: not told."""
    if memory.kv_cache_size_tokens is None or memory.max_model_len is None:
        return None
    return memory.kv_cache_size_tokens // memory.max_model_len


def _left_for_cache(memory: NodeMemory, beside: int) -> int | None:
    """The cache that runs, or what is left for it where the engine makes it of that."""
    runs, least = memory.kv_cache_memory_bytes, memory.kv_cache_least_bytes
    if runs is None or least is None or memory.limit_bytes is None:
        return runs
    return min(runs, max(least, memory.limit_bytes - beside))


def _mend(memory: NodeMemory, runs: Mapping[str, Any], wanted: Mapping[str, Any], knob: str) -> str:
    """The most of this knob that fits beside the others."""
    fixed = memory.kv_cache_least_bytes is None
    elsewhere = f"give its engine more memory{' or a smaller KV cache' if fixed else ''}"
    if knob == QUANTIZATION:
        able = [name for name in memory.weights_bytes_by_format if _fits(memory, runs, wanted, knob, name)]
        return f"one of {', '.join(able)}, or {elsewhere}" if able else elsewhere
    low = _least(knob)
    if not _fits(memory, runs, wanted, knob, low):
        return elsewhere
    # What does not fit; a chunk of 0 is a whole step.
    high = largest(wanted[knob]) or int(wanted[MAX_NUM_BATCHED_TOKENS])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(memory, runs, wanted, knob, middle) else (low, middle)
    return f"at most {low}, or {elsewhere}"


def _fits(memory: NodeMemory, runs: Mapping[str, Any], wanted: Mapping[str, Any], knob: str, value: Any) -> bool:
    return estimate(memory, runs, {**wanted, knob: value}).fit is not Fit.DOES_NOT_FIT


def _known(runs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in runs.items() if name in KNOBS}


def _least(name: str) -> Any:
    """The value that asks for least: a prefill chunk of one token, for 0 is no limit."""
    knob = KNOBS[name]
    return 1 if name == PREFILL_CHUNK_SIZE else knob.default if knob.minimum is None else knob.minimum


def _times(each: int | None, count: int | None) -> int | None:
    return None if each is None or count is None else each * max(count, 0)


def _most_tokens(memory: NodeMemory, knobs: Mapping[str, Any]) -> int | None:
    """Tokens of the largest step: its budget, or all that may run at once with as much as each may have in a step."""
    if not knobs.keys() >= {MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE, NUM_SPECULATIVE_TOKENS, MAX_NUM_SEQS}:
        return None
    budget, chunk = int(knobs[MAX_NUM_BATCHED_TOKENS]), int(knobs[PREFILL_CHUNK_SIZE])
    each = budget if chunk == 0 else max(chunk, 1 + largest(knobs[NUM_SPECULATIVE_TOKENS]))
    if memory.max_model_len is not None:
        each = min(each, memory.max_model_len)
    return min(budget, int(knobs[MAX_NUM_SEQS]) * each)


def _most_logits(knobs: Mapping[str, Any]) -> int | None:
    """Tokens of a step whose logits are wanted: one of each running request, and one for each of its drafts."""
    if not knobs.keys() >= {MAX_NUM_BATCHED_TOKENS, NUM_SPECULATIVE_TOKENS, MAX_NUM_SEQS}:
        return None
    requests, drafts = int(knobs[MAX_NUM_SEQS]), knobs[NUM_SPECULATIVE_TOKENS]
    if not isinstance(drafts, list | tuple):
        return min(requests * (1 + int(drafts)), int(knobs[MAX_NUM_BATCHED_TOKENS]))
    wanted, below = requests, 0  # Past the schedule's end nobody drafts.
    for most, tokens in drafts:
        if requests > below:
            wanted = max(wanted, min(int(most), requests) * (1 + int(tokens)))
        below = int(most)
    return min(wanted, int(knobs[MAX_NUM_BATCHED_TOKENS]))
