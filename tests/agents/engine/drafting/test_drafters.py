"""Every way to draft keeps the seam's promises, and drafts what it says."""

from pathlib import Path
from typing import Any

import pytest
import torch

from agents.engine.drafting.draft_model import MOST_TAKEN_IN
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from tests.agents.engine.drafting.drafter_conformance import DrafterConformance, prompts, run_all, start

COUNT = 24


class TestNgram(DrafterConformance):
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"speculative_method": "ngram"}


class TestForeignDraftModel(DrafterConformance):
    accepts_some = False

    @pytest.fixture
    def options(self, draft_dir: Path) -> dict[str, Any]:
        return {"speculative_method": "draft_model", "draft_model": draft_dir}


class TestLikeDraftModel(DrafterConformance):
    """A draft model that agrees with one of the models: its drafts are kept."""

    @pytest.fixture
    def options(self, model_dir: Path) -> dict[str, Any]:
        return {"speculative_method": "draft_model", "draft_model": model_dir}


class TestEarlyExit(DrafterConformance):
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"speculative_method": "early_exit"}


def _own_draft(model_dir: Path) -> dict[str, Any]:
    return {"speculative_method": "draft_model", "draft_model": model_dir, "speculation_gate": False}


@pytest.mark.parametrize(
    "wishes", [{}, {"frequency_penalty": 0.5, "repetition_penalty": 1.2}, {"logit_bias": ((7, 4.0), (9, -3.0))}]
)
def test_a_model_that_drafts_for_itself_has_every_draft_accepted(model_dir: Path, wishes: dict[str, Any]) -> None:
    engine, watched = start(model_dir, _own_draft(model_dir), num_speculative_tokens=3, max_num_batched_tokens=30)
    run_all(engine, prompts(), [SamplingParams(COUNT, **wishes)] * len(prompts()))
    assert watched.proposed == watched.accepted > 100


def test_all_layers_as_early_exit_have_every_draft_accepted(model_dir: Path) -> None:
    options = {"speculative_method": "early_exit", "early_exit_layer": 2, "speculation_gate": False}
    engine, watched = start(model_dir, options, num_speculative_tokens=3)
    run_all(engine, prompts(), [SamplingParams(COUNT)] * len(prompts()))
    assert watched.proposed == watched.accepted > 100


@pytest.mark.parametrize("budget", [40, 2048])
def test_what_a_draft_model_missed_is_taken_in_within_the_budget(model_dir: Path, budget: int) -> None:
    engine, watched = start(model_dir, _own_draft(model_dir), max_num_batched_tokens=budget)
    request = Request("a", [*prompts()[5], *prompts(1)[5], *prompts(2)[5]], SamplingParams(COUNT + 20))
    engine.scheduler.add(request)
    with torch.inference_mode():
        while request.num_outputs < 5:
            engine.step()
        assert request.draft_computed == 0
        engine.scheduler.config = engine.scheduler.config.model_copy(update={"num_speculative_tokens": 3})
        most = min(MOST_TAKEN_IN, budget - 1)
        while len(request.tokens) - request.draft_computed > 1:
            before, missing = watched.taken_in, len(request.tokens) - request.draft_computed
            assert watched.proposed == 0
            engine.step()
            taken = watched.taken_in - before
            assert taken == min(most, missing) or taken == 0
            if taken == 0:
                break
        while engine.scheduler.has_work:
            engine.step()
    assert watched.proposed == watched.accepted > 0


def test_a_cached_prefix_that_the_draft_model_knows_is_not_taken_in_again(model_dir: Path) -> None:
    engine, watched = start(model_dir, _own_draft(model_dir), num_speculative_tokens=3)
    for _ in range(2):
        run_all(engine, [prompts()[5]], [SamplingParams(COUNT)])
    assert engine.scheduler.prefix_hits > 0 and watched.taken_in == 0
    assert watched.proposed == watched.accepted


def test_a_prefix_cached_without_the_draft_model_is_taken_in(model_dir: Path) -> None:
    engine, watched = start(model_dir, _own_draft(model_dir))
    run_all(engine, [prompts()[5]], [SamplingParams(COUNT)])
    engine.scheduler.config = engine.scheduler.config.model_copy(update={"num_speculative_tokens": 3})
    run_all(engine, [prompts()[5]], [SamplingParams(COUNT)])
    assert watched.taken_in >= 128
    assert watched.proposed == watched.accepted > 0


@torch.inference_mode()
def test_the_draft_length_follows_the_number_of_requests(model_dir: Path) -> None:
    options = {"speculative_method": "early_exit", "speculation_gate": False}
    engine, watched = start(model_dir, options, num_speculative_tokens=[[1, 4], [2, 1]])
    lengths = {1: 4, 2: 1, 3: 0}
    for number, prompt in enumerate(prompts()[2:5]):
        engine.scheduler.add(Request(str(number), prompt, SamplingParams(8 + 8 * number)))
    engine.step()
    reached = set()
    while engine.scheduler.has_work:
        running, before = len(engine.scheduler.running), watched.proposed
        engine.step()
        drafts = watched.proposed - before
        assert drafts <= running * lengths[running]
        if drafts == running * lengths[running]:
            reached.add(running)
    assert reached == {1, 2, 3}
