"""What one iteration of vLLM says, and the events it becomes.

The events are those of the agent's contract (controlplane/contract/reports/engine_event.py), so that whoever reads an
embedded engine reads vLLM as well. Durations are seconds. vLLM keeps two clocks: wall time in the server process
(arrival, end) and the monotonic clock in the engine's process (queued, scheduled, tokens). On one machine both are the
system's own, so their offset turns one into the other, and a request's parts add up:
  tokenize  arrival until queued in the engine (parsing, tokenizing, and the way between the processes)
  queue     queued until first scheduled
  prefill   first scheduled until the first token
  decode    first token until the last one
  send      last token until the server process has taken it up and made text of it
"""

from typing import Any, NamedTuple


class FirstToken(NamedTuple):
    """Seconds until a request's first token; `prompt_tokens` None when vLLM's internals do not tell whose it was."""

    ttft: float
    prompt_tokens: int | None
    cached_tokens: int


class Gaps(NamedTuple):
    """Gaps between the deliveries of one request; of several where `prompt_tokens` is None.

    `tokens`: held by the deliveries that ended these gaps, more than one each with drafts; None where not told.
    """

    gaps: list[float]
    prompt_tokens: int | None
    cached_tokens: int
    tokens: int | None = None


class Finished(NamedTuple):
    """A request that ended. Parts are None when vLLM's internals could not be read."""

    request_id: str
    reason: str
    e2e: float
    ttft: float | None
    tokenize: float | None
    queue: float
    prefill: float
    decode: float
    send: float | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


class Iteration(NamedTuple):
    """One engine iteration. `time`: Unix seconds at which the server process took it up.

    `batched_tokens` is what the iteration computed, as true as vLLM's statistics allow: exact where vLLM was started
    with --enable-logging-iteration-details. Else it is the tokens generated, the drafts rejected, and the prompt tokens
    computed for those requests whose first token is in this iteration, less those first tokens themselves (they come
    out of the prompt's last position): so the tokens of a prompt that was computed in several chunks are all counted in
    the step of its last chunk, and what a preempted request computes again is not counted. Sums over time are right.
    `drafted_per_position`: draft tokens by their place; None where vLLM does not count them (before 0.32).
    `work`: FLOPs, bytes read and bytes written, of one GPU; None where vLLM does not count them (--enable-mfu-metrics).
    """

    time: float
    running: int
    waiting: int
    kv_usage: float
    batched_tokens: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: list[int]
    preemptions: int
    prefix_queries: int
    prefix_hits: int
    first_tokens: list[FirstToken]
    gaps: list[Gaps]
    finished: list[Finished]
    work: tuple[int, int, int] | None = None
    drafted_per_position: list[int] | None = None

    @property
    def events(self) -> int:
        return 1 + len(self.first_tokens) + len(self.gaps) + len(self.finished)

    @property
    def size(self) -> int:
        """About its bytes in memory (CPython 3.11, 64 bit), for the ring's bound."""
        gaps = sum(200 + 32 * len(one.gaps) for one in self.gaps)
        return 900 + 200 * len(self.first_tokens) + gaps + 800 * len(self.finished)


class BoundSteps(NamedTuple):
    """Steps that the scheduler counted in one second, by what bound them. `time`: Unix seconds, in that second."""

    time: float
    by_limit: dict[str, int]

    @property
    def events(self) -> int:
        return 1

    @property
    def size(self) -> int:
        """As an iteration's."""
        return 500


def events_of(first: int, record: "Iteration | BoundSteps", revision: int) -> list[dict[str, Any]]:
    """The record's events, numbered from `first`."""
    head = {"time": record.time, "revision": revision}
    if isinstance(record, BoundSteps):
        return [{"kind": "counts", **head, "seq": first, "counts": {}, "requests": {}, "step_limits": record.by_limit}]
    iteration = record
    made: list[dict[str, Any]] = [
        {
            "kind": "step",
            **head,
            "running": iteration.running,
            "waiting": iteration.waiting,
            "kv_usage": iteration.kv_usage,
            "batched_tokens": iteration.batched_tokens,
            "draft_tokens": iteration.draft_tokens,
            "accepted_tokens": iteration.accepted_tokens,
            "accepted_per_position": iteration.accepted_per_position,
            "preemptions": iteration.preemptions,
            "prefix_queries": iteration.prefix_queries,
            "prefix_hits": iteration.prefix_hits,
        }
    ]
    if iteration.drafted_per_position is not None:
        made[0]["drafted_per_position"] = iteration.drafted_per_position
    if iteration.work is not None:
        made[0].update(zip(("flops", "read_bytes", "write_bytes"), iteration.work, strict=True))
    made += ({"kind": "first_token", **head, **one._asdict()} for one in iteration.first_tokens)
    made += ({"kind": "gaps", **head, **one._asdict()} for one in iteration.gaps)
    made += (_finished(head, one) for one in iteration.finished)
    for number, event in enumerate(made, first):
        event["seq"] = number
    return made


def _finished(head: dict[str, Any], one: Finished) -> dict[str, Any]:
    # Two clocks meet in these: a correction between two looks at them can make a short part negative, which nothing is.
    tokenize, send = max(one.tokenize or 0.0, 0.0), max(one.send or 0.0, 0.0)
    known = tokenize + one.queue + one.prefill + one.decode + send
    several = one.output_tokens > 1 and one.ttft is not None
    return {
        "kind": "finished",
        **head,
        "request_id": one.request_id,
        "finish_reason": one.reason,
        "arrival": head["time"] - one.e2e,
        "prompt_tokens": one.prompt_tokens,
        "cached_tokens": one.cached_tokens,
        "output_tokens": one.output_tokens,
        "block_size": 0,
        "block_hashes": [],
        "e2e": one.e2e,
        "ttft": one.ttft,
        "tpot": (one.e2e - one.ttft) / (one.output_tokens - 1) if several and one.ttft is not None else None,
        "receive": 0.0,
        "tokenize": tokenize,
        "queue": one.queue,
        "prefill": one.prefill,
        "decode": one.decode,
        "send": send,
        "unaccounted": one.e2e - known,
    }
