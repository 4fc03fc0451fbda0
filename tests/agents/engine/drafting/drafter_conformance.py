"""What every `Drafter` must do, in a real engine. Subclass it and give `options`, what the engine is started with, as a
fixture."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.scheduling.step_plan import Work
from controlplane.contract.knobs import parse_config

COUNT = 20
BLOCK_BYTES = 2 * 2 * 2 * 16 * 16 * 4  # layers, keys and values, heads, head size, tokens, float32.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunked prefill": {"prefill_chunk_size": 7},
    "tight token budget": {"max_num_batched_tokens": 14},
    "budget of one token": {"max_num_batched_tokens": 1},
    "few at once": {"max_num_seqs": 2},
    "preemption": {"kv_cache_memory_bytes": 24 * BLOCK_BYTES},
}


class WatchedDrafter(Drafter):
    """Checks what the drafter inside does."""

    def __init__(self, inside: Drafter) -> None:
        self.inside = inside
        self.proposed = self.accepted = self.taken_in = 0

    def reserve(self, request: Request, limit: int) -> int:
        assert limit > 0 and request.remaining == 1
        tokens = list(request.tokens)
        drafts = self.inside.reserve(request, limit)
        assert 0 <= drafts <= limit and request.tokens == tokens
        return drafts

    def propose(self, works: Sequence[Work], spare: int) -> int:
        before = [list(work.request.tokens) for work in works]
        taken_in = self.inside.propose(works, spare)
        assert 0 <= taken_in <= max(0, spare)
        for work, tokens in zip(works, before, strict=True):
            assert len(work.drafts) == work.draft_count and work.request.tokens == tokens
            self.proposed += len(work.drafts)
        self.taken_in += taken_in
        return taken_in

    def commit(self, work: Work, accepted: int) -> None:
        assert 0 <= accepted <= len(work.drafts)
        self.accepted += accepted
        self.inside.commit(work, accepted)


def start(folder: Path, options: dict[str, Any], **knobs: Any) -> tuple[StepEngine, WatchedDrafter]:
    """An engine whose drafter is watched."""
    engine = StepEngine(EngineOptions(folder, config=parse_config(knobs), **options), EventLog())
    watched = engine.speculator.drafter = WatchedDrafter(engine.speculator.drafter)  # type: ignore[assignment]
    return engine, watched  # type: ignore[return-value]


@torch.inference_mode()
def run_all(engine: StepEngine, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams]) -> list[list[int]]:
    """Serve all to their end; nothing may be left behind."""
    requests = [Request(str(n), prompt, own) for n, (prompt, own) in enumerate(zip(prompts, params, strict=True))]
    for request in requests:
        engine.scheduler.add(request)
    while engine.scheduler.has_work:
        engine.step()
    assert engine.pool.num_held == 0
    return [request.tokens[request.prompt_length :] for request in requests]


def prompts(seed: int = 0) -> list[list[int]]:
    """Of several lengths; two share a prefix, one repeats itself."""
    draw = random.Random(seed)
    made = [[draw.randrange(1, 320) for _ in range(length)] for length in (1, 15, 17, 50, 64, 130)]
    return [*made, [*made[4][:48], 7, 8, 9], [5, 6, 7, 8] * 10]


class DrafterConformance:
    accepts_some = True
    """Whether some of its drafts are kept for these models and prompts."""

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        raise NotImplementedError

    def test_greedy_text_is_that_without_speculation(self, model_dir: Path, options: dict[str, Any]) -> None:
        params = [SamplingParams(COUNT)] * len(prompts())
        plain = run_all(start(model_dir, {})[0], prompts(), params)
        for way, settings in WAYS.items():
            knobs = {name: value for name, value in settings.items() if name != "kv_cache_memory_bytes"}
            more = {name: value for name, value in settings.items() if name == "kv_cache_memory_bytes"}
            without_gate = {**options, **more, "speculation_gate": False}
            engine, watched = start(model_dir, without_gate, num_speculative_tokens=3, **knobs)
            assert run_all(engine, prompts(), params) == plain, way
            if way != "budget of one token":
                assert watched.proposed > 0, way
                assert watched.accepted > 0 or not self.accepts_some, way
        engine, _ = start(model_dir, options, num_speculative_tokens=3)
        assert run_all(engine, prompts(), params) == plain

    @pytest.mark.parametrize("shape", ["gemma3", "qwen3", "full_untied_biased_llama3"])
    def test_greedy_text_for_other_models(
        self, model_dirs: dict[str, Path], options: dict[str, Any], shape: str
    ) -> None:
        params = [SamplingParams(COUNT)] * len(prompts())
        plain = run_all(start(model_dirs[shape], {})[0], prompts(), params)
        engine, watched = start(model_dirs[shape], {**options, "speculation_gate": False}, num_speculative_tokens=4)
        assert run_all(engine, prompts(), params) == plain and watched.proposed > 0

    def test_seeded_text_is_that_without_speculation(self, model_dir: Path, options: dict[str, Any]) -> None:
        params = [
            SamplingParams(
                COUNT, temperature=0.5, top_p=0.9, top_k=40 * (n % 2), seed=n, frequency_penalty=0.2 * (n % 3)
            )
            for n in range(len(prompts()))
        ]
        plain = run_all(start(model_dir, {})[0], prompts(), params)
        engine, watched = start(model_dir, {**options, "speculation_gate": False}, num_speculative_tokens=3)
        assert run_all(engine, prompts(), params) == plain and watched.proposed > 0

    def test_a_cached_prefix_changes_nothing(self, model_dir: Path, options: dict[str, Any]) -> None:
        engine, _ = start(model_dir, {**options, "speculation_gate": False}, num_speculative_tokens=3)
        plain, _ = start(model_dir, {})
        base = prompts()[5]
        for prompt in (base, base, [*base[:100], 3, 4], base[:64]):
            assert run_all(engine, [prompt], [SamplingParams(COUNT)]) == run_all(
                plain, [prompt], [SamplingParams(COUNT)]
            )
        assert engine.scheduler.prefix_hits > 0

    @pytest.mark.parametrize("seed", range(4))
    def test_changing_knobs_preemption_and_aborts(self, model_dir: Path, options: dict[str, Any], seed: int) -> None:
        """The watched drafter checks the limits; the text is right and nothing leaks whatever happens."""
        draw = random.Random(seed)
        asked = prompts(seed) + prompts(seed + 100)
        wanted = run_all(start(model_dir, {})[0], asked, [SamplingParams(COUNT)] * len(asked))
        small = {**options, "kv_cache_memory_bytes": 26 * BLOCK_BYTES, "speculation_gate": bool(seed % 2)}
        engine, _ = start(model_dir, small)
        requests = [Request(str(n), prompt, SamplingParams(COUNT)) for n, prompt in enumerate(asked)]
        arriving = list(requests)
        with torch.inference_mode():
            while arriving or engine.scheduler.has_work:
                if arriving and (draw.random() < 0.3 or not engine.scheduler.has_work):
                    engine.scheduler.add(arriving.pop(0))
                if draw.random() < 0.2:
                    engine.scheduler.config = parse_config(
                        {
                            "num_speculative_tokens": draw.choice([0, 1, 3, 6, [[1, 4], [3, 2]]]),
                            "max_num_batched_tokens": draw.choice([1, 8, 40, 512]),
                            "max_num_seqs": draw.choice([1, 3, 16]),
                            "prefill_chunk_size": draw.choice([0, 5]),
                        }
                    )
                if draw.random() < 0.02 and engine.scheduler.running:
                    engine.scheduler.finish(draw.choice(list(engine.scheduler.running)), FinishReason.ABORT)
                engine.step()
        assert engine.pool.num_held == 0
        for request, text in zip(requests, wanted, strict=True):
            own = request.tokens[request.prompt_length :]
            assert own == text[: len(own)]
            assert len(own) == COUNT or request.finish_reason is FinishReason.ABORT
