"""One engine step: schedule, draft, forward, sample, commit, each timed; and the model behind it, which may be swapped.

Guarantee: a step that fails ends the requests in it with an error and leaves the others and the pool as they were.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

import torch
from torch import Tensor

from agents.engine.core.event_log import EventLog
from agents.engine.core.step_report import StepClock, step_event
from agents.engine.core.step_work import StepWork, work_sizes
from agents.engine.drafting.building import build_speculator, read_draft_config
from agents.engine.drafting.draft_model import ModelDrafter
from agents.engine.drafting.drafting import accept
from agents.engine.loading.loading import load_decoder
from agents.engine.model.config import ModelConfig, read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.device import check_dtype, choose_device, wait_for
from agents.engine.model.runner import Rows, Runner
from agents.engine.ops.ops_choice import choose_ops
from agents.engine.options import EngineOptions
from agents.engine.quantization.linear import check_permitted
from agents.engine.request.timing import monotonic
from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.sampling.logprobs import token_logprobs
from agents.engine.sampling.prompt_logprobs import take_prompt_logprobs, wanted_rows
from agents.engine.sampling.row import rows_of
from agents.engine.sampling.sampler import sample
from agents.engine.scheduling.admission import Ended
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import layers_per_block
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.scheduling.scheduler import Scheduler
from agents.engine.scheduling.step_plan import StepPlan, Work
from controlplane.contract.errors import BadRequest, TailwrightError
from controlplane.contract.knobs import Quantization

GAP_EVENT_AGE_S = 0.25


@dataclass(frozen=True)
class TokenOutput:
    """What a step (or an abort, or a failure) gave one request. Times are of the engine's monotonic clock."""

    request: Request
    tokens: Sequence[int]
    committed_at: float
    finish_reason: FinishReason | None
    failure: TailwrightError | None = None
    """Why there is no answer; with tokens before it, why there is no more of it."""
    logprobs: Sequence[TokenLogprob] = ()
    """Of the tokens, where the request asked for them."""


class StepEngine:
    """Model, scheduler and drafter. Not thread-safe: one thread steps it and changes it between steps."""

    def __init__(self, options: EngineOptions, log: EventLog) -> None:
        check_permitted(options.config.quantization, options.quantizations)
        self.options, self.log = options, log
        self.revision = 0
        self._gaps_flushed_at = monotonic()
        self.model_config = read_model_config(options.model)
        self._dtype: torch.dtype = getattr(torch, options.dtype)
        self.max_model_len = min(options.max_model_len or 2**31, self.model_config.max_position_embeddings)
        check_dtype(self.model_config, self._dtype)
        self.device = choose_device(options.device)
        self.kernels = choose_ops(self.device, self._dtype, options.kernels)
        decoder = self._load(options.config.quantization)
        draft_config = read_draft_config(options, self.model_config)
        num_blocks = self._affordable_blocks(draft_config)
        self.pool = BlockPool(num_blocks, options.block_size)
        cache = KvCache(self.pool, self.model_config.cache_groups(), options.prefix_caching)
        self.scheduler = Scheduler(cache, options.config, options.policy)
        self.runner = Runner(decoder, num_blocks, options.block_size)
        self._work = work_sizes(decoder)
        self.speculator = build_speculator(options, self.runner, draft_config, num_blocks, self._dtype)

    def warm_up(self) -> None:
        """Prepare what a first request would otherwise wait for."""
        self.runner.warm_up()
        if isinstance(self.speculator.drafter, ModelDrafter):
            self.speculator.drafter.runner.warm_up()

    def swap_weights(self, quantization: Quantization) -> None:
        """Put other weights in place; nothing may be running. Cached keys and values of the old ones are forgotten."""
        assert self.scheduler.is_drained
        self.runner.decoder = self._load(quantization)
        self._work = work_sizes(self.runner.decoder)
        self.pool.reset_cache()

    def step(self) -> list[TokenOutput]:
        """Run one step and report it; empty when there was nothing to run."""
        scheduler = self.scheduler
        clock = StepClock()
        running = len(scheduler.running)
        draft_length = scheduler.config.draft_length(running)
        self.speculator.begin(running, draft_length)
        plan = scheduler.schedule(self.speculator, clock.started)
        if not plan.works:
            return []
        clock.lap("schedule")
        # The plan itself may have lowered the number of running requests, and so raised the draft length.
        drafting = draft_length > 0 or any(work.draft_count for work in plan.works)
        if drafting:
            self.speculator.propose(plan.works, scheduler.config.max_num_batched_tokens - plan.batched_tokens)
            wait_for(self.device)
        clock.lap("draft")
        logits = self.runner.forward([_rows(work) for work in plan.works])
        # A GPU's call returns before its work is done: that would be told as sampling's time, or as the next step's.
        wait_for(self.device)
        clock.lap("forward")
        computed = len(logits)
        logits = take_prompt_logprobs(plan.works, logits)
        rows = [row for work in plan.works if work.samples for row in rows_of(work)]
        tokens = sample(logits, rows) if rows else []
        clock.lap("sample")
        outputs, accepted = self._commit(plan, tokens, logits, drafting)
        clock.lap("commit")
        scheduler.observe(plan, sum(clock.parts.values()))
        if drafting:
            self.speculator.end(plan.works, clock.parts)
        self._report(plan, accepted, clock, self._work.of(plan.works, computed))
        return outputs

    def expire(self) -> list[TokenOutput]:
        """End the requests whose deadline has passed, running or waiting."""
        return self.told(self.scheduler.expire(monotonic()))

    def told(self, ended: Sequence[Ended]) -> list[TokenOutput]:
        """The last outputs of requests that the scheduler ended by itself."""
        now = monotonic()
        for one in ended:
            self.flush_gaps(one.request)
        return [TokenOutput(one.request, (), now, one.reason, one.failure) for one in ended]

    def fail(self, message: str) -> list[TokenOutput]:
        """End every running request with an error; those waiting stay."""
        now = monotonic()
        failed = list(self.scheduler.running)
        for request in failed:
            self.scheduler.finish(request, FinishReason.ERROR)
        self.pool.reset_cache()
        return [TokenOutput(request, (), now, FinishReason.ERROR, TailwrightError(message)) for request in failed]

    def flush_gaps(self, request: Request) -> None:
        """Report the gaps gathered so far: one per step that gave the request tokens, however many (as vLLM counts
        inter-token latency)."""
        times = request.committed_at
        if len(times) > 1:
            event: dict[str, Any] = {
                "kind": "gaps",
                "time": time.time(),
                "revision": self.revision,
                "prompt_tokens": request.prompt_length,
                "cached_tokens": request.cached_tokens,
                # Of numbers alone, so that the garbage collector need not walk the ring's events again and again.
                "gaps": tuple(map(sub, times[1:], times)),
                "tokens": request.num_outputs - request.committed_outputs,
            }
            if request.tenant:
                event["tenant"] = request.tenant
            self.log.append(event)
            request.committed_at = times[-1:]
            request.committed_outputs = request.num_outputs

    def _commit(
        self, plan: StepPlan, tokens: list[int], logits: Tensor, drafting: bool
    ) -> tuple[list[TokenOutput], list[int]]:
        outputs: list[TokenOutput] = []
        accepted_drafts: list[int] = []
        used = 0
        now = monotonic()
        for work in plan.works:
            request = work.request
            if not work.samples:
                self.scheduler.commit(work, ())
                continue
            own = tokens[used : used + len(work.drafts) + 1]
            accepted = accept(work.drafts, own)
            logprobs = _logprobs(request, logits[used : used + len(accepted)], accepted)
            used += len(own)
            if drafting:
                self.speculator.commit(work, len(accepted) - 1)
            if work.drafts:
                accepted_drafts.append(len(accepted) - 1)
            kept, reason = self.scheduler.commit(work, accepted)
            if not request.committed_at:
                request.committed_outputs = request.num_outputs
            request.committed_at.append(now)
            if reason:
                self.speculator.finished(request)
                self.flush_gaps(request)
            outputs.append(TokenOutput(request, kept, now, reason, logprobs=logprobs))
        return outputs, accepted_drafts

    def _report(self, plan: StepPlan, accepted: Sequence[int], clock: StepClock, work: StepWork) -> None:
        scheduler, now = self.scheduler, clock.ended
        state = (len(scheduler.running), len(scheduler.waiting), self.pool.usage)
        self.log.append(step_event(self.revision, clock, self.runner.last_attention_s, plan, accepted, state, work))
        if now - self._gaps_flushed_at >= GAP_EVENT_AGE_S:
            self._gaps_flushed_at = now
            for request in scheduler.running:
                self.flush_gaps(request)

    def _load(self, quantization: Quantization) -> Decoder:
        return load_decoder(
            self.options.model,
            self.model_config,
            quantization,
            self._dtype,
            self.kernels.ops,
            self.device,
            self.max_model_len,
            self.options.kernels,
        )

    def _affordable_blocks(self, draft_config: ModelConfig | None) -> int:
        model = self.model_config
        floats = layers_per_block(model.cache_groups()) * model.kv_floats_per_layer
        if draft_config:  # A draft model keeps all its layers in the same blocks.
            floats += draft_config.num_hidden_layers * draft_config.kv_floats_per_layer
        block_bytes = floats * self._dtype.itemsize * self.options.block_size
        if (blocks := self.options.kv_cache_memory_bytes // block_bytes) < 1:
            raise BadRequest(
                f"kv_cache_memory_bytes: {self.options.kv_cache_memory_bytes} holds no block; one takes {block_bytes} "
                "bytes",
                field="kv_cache_memory_bytes",
            )
        return blocks


def _rows(work: Work) -> Rows:
    tokens = work.request.tokens[work.start : work.start + work.count] + work.drafts
    return Rows(tokens, work.start, work.request.tables, wanted_rows(work))


def _logprobs(request: Request, logits: Tensor, tokens: Sequence[int]) -> Sequence[TokenLogprob]:
    tops = request.params.logprobs
    return () if tops is None else token_logprobs(logits, tokens, tops)
