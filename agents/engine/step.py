"""One engine step: schedule, draft, forward, sample, commit, each timed; and the model behind it, which may be swapped.

Guarantee: a step that fails ends the requests in it with an error and leaves the others and the pool as they were.
"""

import time
from collections.abc import Sequence as Items
from dataclasses import dataclass

import torch

from agents.engine.model.config import ModelConfig, read_model_config
from agents.engine.model.decoder import Decoder
from agents.engine.model.runner import Rows, Runner
from agents.engine.observation.event_log import EventLog
from agents.engine.observation.timing import monotonic
from agents.engine.options import EngineOptions
from agents.engine.quantization.linear import check_supported
from agents.engine.sampling.sampler import sample
from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.scheduler import Drafter, Scheduler, StepPlan, Work
from agents.engine.scheduling.sequence import FinishReason, Sequence
from agents.engine.speculation.draft_model import ModelDrafter
from agents.engine.speculation.drafting import NgramDrafter, SpeculativeMethod, accept
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import Quantization

GAP_EVENT_AGE_S = 0.25


@dataclass(frozen=True)
class TokenOutput:
    """What a step (or an abort, or a failure) gave one request. Times are of the engine's monotonic clock."""

    sequence: Sequence
    tokens: Items[int]
    committed_at: float
    finish_reason: FinishReason | None
    error: str | None = None


class StepEngine:
    """Model, scheduler and drafter. Not thread-safe: one thread steps it and changes it between steps."""

    def __init__(self, options: EngineOptions, log: EventLog) -> None:
        check_supported(options.config.quantization)
        self.options, self.log = options, log
        self.revision = 0
        self.model_config = read_model_config(options.model_dir)
        self._dtype: torch.dtype = getattr(torch, options.dtype)
        decoder = self._load(options.config.quantization)
        draft_config = self._read_draft_config()
        num_blocks = self._affordable_blocks(draft_config)
        self.max_model_len = min(options.max_model_len or 2**31, self.model_config.max_position_embeddings)
        self.pool = BlockPool(num_blocks, options.block_size)
        self.scheduler = Scheduler(KvCache(self.pool, self.model_config.cache_groups()), options.config)
        self.runner = Runner(decoder, num_blocks, options.block_size)
        self._drafter: Drafter = NgramDrafter()
        if draft_config is not None:
            assert options.draft_model_dir is not None
            draft = Decoder.load(options.draft_model_dir, draft_config, Quantization.NONE, self._dtype)
            self._drafter = ModelDrafter(Runner(draft, num_blocks, options.block_size))

    def warm_up(self) -> None:
        """Prepare what a first request would otherwise wait for."""
        self.runner.warm_up()
        if isinstance(self._drafter, ModelDrafter):
            self._drafter.runner.warm_up()

    def swap_weights(self, quantization: Quantization) -> None:
        """Put other weights in place; nothing may be running. Cached keys and values of the old ones are forgotten."""
        assert self.scheduler.is_drained
        self.runner.decoder = self._load(quantization)
        self.pool.reset_cache()

    def step(self) -> list[TokenOutput]:
        """Run one step and report it; empty when there was nothing to run."""
        scheduler = self.scheduler
        started = monotonic()
        plan = scheduler.schedule(self._drafter, started)
        if not plan.works:
            return []
        scheduled = monotonic()
        drafting = scheduler.config.draft_length(len(scheduler.running)) > 0
        if drafting:
            self._drafter.propose(plan.works)
        logits = self.runner.forward([_rows(work) for work in plan.works])
        forwarded = monotonic()
        sampling = [work for work in plan.works if work.samples]
        places = [
            (work.sequence.params, work.sequence.num_outputs + offset)
            for work in sampling
            for offset in range(len(work.drafts) + 1)
        ]
        tokens = sample(logits, places) if places else []
        sampled = monotonic()
        outputs, accepted = self._commit(plan, tokens, drafting)
        self._report(plan, accepted, (started, scheduled, forwarded, sampled, monotonic()))
        return outputs

    def fail(self, message: str) -> list[TokenOutput]:
        """End every running request with an error; those waiting stay."""
        now = monotonic()
        failed = list(self.scheduler.running)
        for sequence in failed:
            self.scheduler.finish(sequence, FinishReason.ERROR)
        self.pool.reset_cache()
        return [TokenOutput(sequence, (), now, FinishReason.ERROR, message) for sequence in failed]

    def flush_gaps(self, sequence: Sequence) -> None:
        """Report the gaps gathered so far."""
        if sequence.gaps:
            self.log.append(
                {
                    "kind": "gaps",
                    "time": time.time(),
                    "revision": self.revision,
                    "prompt_tokens": sequence.prompt_length,
                    "cached_tokens": sequence.cached_tokens,
                    "gaps": sequence.gaps,
                    **({"tenant": sequence.tenant} if sequence.tenant else {}),
                }
            )
            sequence.gaps = []

    def _commit(self, plan: StepPlan, tokens: list[int], drafting: bool) -> tuple[list[TokenOutput], int]:
        outputs: list[TokenOutput] = []
        accepted_drafts = used = 0
        for work in plan.works:
            sequence = work.sequence
            if not work.samples:
                self.scheduler.commit(work, ())
                continue
            own = tokens[used : used + len(work.drafts) + 1]
            used += len(own)
            accepted = accept(work.drafts, own)
            if drafting:
                self._drafter.commit(work, len(accepted) - 1)
            accepted_drafts += len(accepted) - 1
            kept, reason = self.scheduler.commit(work, accepted)
            now = monotonic()
            self._mark(sequence, now, ended=reason is not None)
            outputs.append(TokenOutput(sequence, kept, now, reason))
        return outputs, accepted_drafts

    def _mark(self, sequence: Sequence, now: float, ended: bool) -> None:
        """One gap per step that gave the request tokens, however many (as vLLM counts inter-token latency)."""
        if sequence.last_token_at is None:
            sequence.first_token_at = now
        else:
            if not sequence.gaps:
                sequence.gaps_since = sequence.last_token_at
            sequence.gaps.append(now - sequence.last_token_at)
        sequence.last_token_at = now
        if ended or (sequence.gaps and now - sequence.gaps_since >= GAP_EVENT_AGE_S):
            self.flush_gaps(sequence)

    def _report(self, plan: StepPlan, accepted: int, marks: tuple[float, float, float, float, float]) -> None:
        started, scheduled, forwarded, sampled, committed = marks
        self.log.append(
            {
                "kind": "step",
                "time": time.time(),
                "revision": self.revision,
                "schedule": scheduled - started,
                "forward": forwarded - scheduled,
                "sample": sampled - forwarded,
                "commit": committed - sampled,
                "running": len(self.scheduler.running),
                "waiting": len(self.scheduler.waiting),
                "kv_usage": self.pool.usage,
                "batched_tokens": plan.batched_tokens,
                "draft_tokens": sum(len(work.drafts) for work in plan.works),
                "accepted_tokens": accepted,
                "preemptions": plan.preemptions,
            }
        )

    def _load(self, quantization: Quantization) -> Decoder:
        return Decoder.load(self.options.model_dir, self.model_config, quantization, self._dtype)

    def _read_draft_config(self) -> ModelConfig | None:
        options = self.options
        if options.speculative_method != SpeculativeMethod.DRAFT_MODEL:
            return None
        assert options.draft_model_dir is not None
        config = read_model_config(options.draft_model_dir)
        if config.vocab_size != self.model_config.vocab_size:
            raise BadRequest(
                f"draft_model_dir: its vocabulary has {config.vocab_size} tokens, "
                f"the model's {self.model_config.vocab_size}",
                field="draft_model_dir",
            )
        if config.max_position_embeddings < self.model_config.max_position_embeddings:
            raise BadRequest("draft_model_dir: its context is shorter than the model's", field="draft_model_dir")
        return config

    def _affordable_blocks(self, draft_config: ModelConfig | None) -> int:
        floats = self.model_config.kv_floats_per_token + (draft_config.kv_floats_per_token if draft_config else 0)
        block_bytes = floats * self._dtype.itemsize * self.options.block_size
        if (blocks := self.options.kv_cache_bytes // block_bytes) < 1:
            raise BadRequest(
                f"kv_cache_bytes: {self.options.kv_cache_bytes} holds no block; one takes {block_bytes} bytes",
                field="kv_cache_bytes",
            )
        return blocks


def _rows(work: Work) -> Rows:
    tokens = work.sequence.tokens[work.start : work.start + work.count] + work.drafts
    return Rows(tokens, work.start, work.sequence.tables, len(work.drafts) + 1 if work.samples else 0)
