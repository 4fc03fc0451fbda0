"""The attributes of vLLM's scheduler that move a limit: which this vLLM has, and within which bounds they are safe.

vLLM checks its limits against each other only at its start, so what it would have refused then must not be set later.
Where the rules come from (vLLM 0.32, v1/core/sched/scheduler.py, the same in 0.28 to 0.31 unless said):
- `schedule()` pads a decode that enters the batch to 1 + num_spec_tokens tokens. A token budget below that never admits
  it, and a prefill chunk below that breaks an assertion; so neither goes below.
- `_reserve_prefill_lookahead` leaves num_prefill_lookahead tokens for the last chunk of a prompt: a smaller budget or
  chunk would come to a halt before them.
- Without chunked prefill a prompt above the token budget would wait for ever, and a chunk would split what must stay
  whole; so both stay as started. The same with multi-modal items that must not be split.
- The token budget never goes above the started one, which can be below max_num_batched_tokens: the rest of the model
  runner's buffers is for drafts.
- Below the number of requests running now, max_num_active_reqs only ends admission. vLLM before 0.31 has only
  max_num_running_reqs, which must not be below the number running: there it follows them down, step by step.
- Drafts: `dynamic_sd_lookup` is vLLM's own schedule by batch size. Some drafters insist on the started length (suffix,
  medusa and others assert it), data parallel ranks must agree on it, and full CUDA graphs are captured for it; there it
  is not used. Where vLLM's own way is closed and scheduling is synchronous, drafts can be shortened before they are
  scheduled, because the scheduler may verify any prefix of a draft.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailwright_vllm.knob_file import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    Capacity,
    Floor,
    Schedule,
    draft_lookup,
    schedule_of,
)
from tailwright_vllm.surprises import described, surprises

_FOLLOWING = frozenset({"ngram", "eagle", "eagle3", "mtp", "draft_model"})
"""Drafters that make as many drafts as the scheduler asks for in each step."""
_VARYING = frozenset({"ngram", "suffix"})
"""Drafters whose drafts differ in length anyway, so that shortening one is nothing new to the model runner."""


@dataclass
class Lever:
    """One knob. `why_not`: empty when it can be moved. `before_step`: what it needs done before each step."""

    name: str
    read: Callable[[], Any]
    move: Callable[[Any], None]
    why_not: str = ""
    before_step: Callable[[], None] | None = None

    def try_move(self, value: Any) -> None:
        """As far as it can be moved; one that fails says why, and stays from then on."""
        if self.why_not:
            return
        try:
            self.move(value)
        except Exception as error:  # noqa: BLE001 - vLLM goes on whatever of it has become another.
            self.why_not = described(error)
            surprises.note(self.name, f"{self.name} cannot be moved any more", error)


def capacity_of(scheduler: Any) -> Capacity:
    """What vLLM was started with. Raises AttributeError or the like where this vLLM does not tell."""
    config = scheduler.scheduler_config
    budget = getattr(scheduler, "max_num_scheduled_tokens", None)
    return Capacity(
        int(config.max_num_batched_tokens if budget is None else budget),
        int(config.max_num_seqs),
        int(getattr(scheduler, "num_spec_tokens", 0) or 0),
    )


def floor_of(scheduler: Any, capacity: Capacity) -> Floor:
    """The least that is safe in this scheduler."""
    padded = 1 + capacity.num_speculative_tokens
    lookahead = int(getattr(scheduler, "num_prefill_lookahead", 0) or 0)
    least = max(1, lookahead, padded if capacity.num_speculative_tokens else 1)
    return Floor(min(least, capacity.max_num_batched_tokens), least)


def levers_of(scheduler: Any, capacity: Capacity) -> list[Lever]:
    """One for each knob; one whose attribute this vLLM lacks, or that is not safe to move, says why."""
    makers = {
        MAX_NUM_BATCHED_TOKENS: _budget,
        PREFILL_CHUNK_SIZE: _chunk,
        MAX_NUM_SEQS: _requests,
        NUM_SPECULATIVE_TOKENS: _drafts,
    }
    levers = []
    for name, make in makers.items():
        try:
            lever = make(scheduler, capacity)
            if not lever.why_not:
                lever.read()
        except Exception as error:  # noqa: BLE001 - another vLLM's scheduler may be of any shape.
            lever = _fixed(name, None, f"this vLLM's scheduler is another: {described(error)}")
        levers.append(lever)
    return levers


def _fixed(name: str, value: Any, why_not: str) -> Lever:
    def refuse(_: Any) -> None:
        raise AttributeError(why_not)

    return Lever(name, lambda: value, refuse, why_not)


def _whole_prompts(scheduler: Any) -> str:
    """Why prompts must not be split; empty when they may."""
    config = scheduler.scheduler_config
    if not getattr(config, "enable_chunked_prefill", True):
        return "vLLM runs without chunked prefill"
    if getattr(config, "disable_chunked_mm_input", False) and getattr(scheduler, "max_num_encoder_input_tokens", 0):
        return "vLLM must not split multi-modal items (--disable-chunked-mm-input)"
    return ""


def _budget(scheduler: Any, capacity: Capacity) -> Lever:
    if not isinstance(getattr(scheduler, "max_num_scheduled_tokens", None), int):
        return _fixed(MAX_NUM_BATCHED_TOKENS, capacity.max_num_batched_tokens, "no max_num_scheduled_tokens here")

    def move(value: int) -> None:
        scheduler.max_num_scheduled_tokens = value

    read = lambda: scheduler.max_num_scheduled_tokens  # noqa: E731
    return Lever(MAX_NUM_BATCHED_TOKENS, read, move, _whole_prompts(scheduler))


def _chunk(scheduler: Any, capacity: Capacity) -> Lever:
    config = scheduler.scheduler_config
    if not isinstance(getattr(config, "long_prefill_token_threshold", None), int):
        return _fixed(PREFILL_CHUNK_SIZE, 0, "no long_prefill_token_threshold here")

    def move(value: int) -> None:
        config.long_prefill_token_threshold = value

    move(config.long_prefill_token_threshold)  # Raises here, at the start, where the configuration is frozen.
    read = lambda: config.long_prefill_token_threshold  # noqa: E731
    return Lever(PREFILL_CHUNK_SIZE, read, move, _whole_prompts(scheduler))


def _requests(scheduler: Any, capacity: Capacity) -> Lever:
    if isinstance(getattr(scheduler, "max_num_active_reqs", None), int):

        def admit(value: int) -> None:
            scheduler.max_num_active_reqs = value

        return Lever(MAX_NUM_SEQS, lambda: scheduler.max_num_active_reqs, admit)
    if not isinstance(getattr(scheduler, "max_num_running_reqs", None), int):
        why = "neither max_num_active_reqs nor max_num_running_reqs here"
        return _fixed(MAX_NUM_SEQS, capacity.max_num_seqs, why)
    len(scheduler.running)
    wanted = scheduler.max_num_running_reqs

    def follow_down() -> None:
        scheduler.max_num_running_reqs = max(wanted, len(scheduler.running))

    def move(value: int) -> None:
        nonlocal wanted
        wanted = value
        follow_down()

    return Lever(MAX_NUM_SEQS, lambda: wanted, move, before_step=follow_down)


def _drafts(scheduler: Any, capacity: Capacity) -> Lever:
    started = capacity.num_speculative_tokens
    if not started:
        return _fixed(NUM_SPECULATIVE_TOKENS, 0, "vLLM was started without drafts (--speculative-config)")
    why_not = _no_lookup(scheduler)
    if not why_not:
        return _lookup(scheduler, capacity)
    method = getattr(scheduler.vllm_config.speculative_config, "method", None)
    parallel = getattr(getattr(scheduler.vllm_config, "parallel_config", None), "data_parallel_size", 1)
    lookup = getattr(scheduler, "dynamic_sd_lookup", None)
    if method in _VARYING and parallel == 1 and lookup is None and not scheduler.scheduler_config.async_scheduling:
        return _shortened(scheduler, capacity)
    return _fixed(NUM_SPECULATIVE_TOKENS, started if lookup is None else schedule_of(lookup), why_not)


def _no_lookup(scheduler: Any) -> str:
    """Why vLLM's own schedule of draft lengths must not be touched; empty when it may."""
    config = scheduler.vllm_config
    speculative = config.speculative_config
    method = getattr(speculative, "method", None)
    if not hasattr(scheduler, "dynamic_sd_lookup"):
        return "no dynamic_sd_lookup here"
    if method not in _FOLLOWING or getattr(speculative, "parallel_drafting", False):
        return f"drafts by {method} have the length vLLM was started with"
    if getattr(getattr(config, "parallel_config", None), "data_parallel_size", 1) > 1:
        return "data parallel ranks must agree on the draft length"
    mode = getattr(getattr(config, "compilation_config", None), "cudagraph_mode", None)
    full_graphs = getattr(mode, "has_full_cudagraphs", None)
    if full_graphs is not None and full_graphs():
        return "full CUDA graphs are captured for the started draft length (use --enforce-eager or piecewise graphs)"
    return ""


def _lookup(scheduler: Any, capacity: Capacity) -> Lever:
    asked: int | Schedule = capacity.num_speculative_tokens
    if scheduler.dynamic_sd_lookup is not None:
        asked = schedule_of(scheduler.dynamic_sd_lookup)

    def move(value: int | Schedule) -> None:
        nonlocal asked
        scheduler.dynamic_sd_lookup = draft_lookup(value, capacity.max_num_seqs)
        asked = value

    def read() -> int | Schedule:
        lookup = scheduler.dynamic_sd_lookup
        if lookup is None:
            return capacity.num_speculative_tokens
        same = lookup[1:] == draft_lookup(asked, capacity.max_num_seqs)[1:]
        return (
            asked if same else schedule_of(lookup)
        )  # One schedule can be written in several ways: keep the asked one.

    return Lever(NUM_SPECULATIVE_TOKENS, read, move)


def _shortened(scheduler: Any, capacity: Capacity) -> Lever:
    value: int | Schedule = capacity.num_speculative_tokens
    lookup = draft_lookup(value, capacity.max_num_seqs)
    len(scheduler.running)

    def move(wanted: int | Schedule) -> None:
        nonlocal value, lookup
        value, lookup = wanted, draft_lookup(wanted, capacity.max_num_seqs)

    def shorten() -> None:
        running = scheduler.running
        most = lookup[min(len(running), len(lookup) - 1)]
        if most < capacity.num_speculative_tokens:
            for request in running:
                if len(request.spec_token_ids) > most:
                    request.spec_token_ids = request.spec_token_ids[:most]

    return Lever(NUM_SPECULATIVE_TOKENS, lambda: value, move, before_step=shorten)
