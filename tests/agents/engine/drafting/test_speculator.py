"""What the engine tells of its speculation, and who decides."""

from itertools import zip_longest
from pathlib import Path

import pytest
from pydantic import ValidationError

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.drafting.early_exit import EarlyExitDrafter, default_depth
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from controlplane.contract.errors import BadRequest
from tests.agents.engine.drafting.drafter_conformance import prompts, run_all, start

PER_POSITION = ("drafted_per_position", "accepted_per_position")
PARAMS = [SamplingParams(20)] * len(prompts())


def test_totals_are_those_of_the_steps(model_dir: Path) -> None:
    engine, watched = start(model_dir, {"speculation_gate": False}, num_speculative_tokens=4)
    run_all(engine, prompts(), PARAMS)
    stats = engine.speculator.stats
    steps = [event for event in engine.log.after(0, 10_000) if event["kind"] == "step"]
    assert stats.draft_tokens == watched.proposed == sum(event["draft_tokens"] for event in steps) > 0
    assert stats.accepted_tokens == watched.accepted == sum(stats.accepted_per_position) > 0
    assert stats.accepted_per_position == sorted(stats.accepted_per_position, reverse=True)
    assert stats.drafts >= stats.accepted_per_position[0]
    told = {name: [step[name] for step in steps if name in step] for name in PER_POSITION}
    drafted, accepted = ([sum(one) for one in zip_longest(*lists, fillvalue=0)] for lists in told.values())
    assert accepted == stats.accepted_per_position[: len(accepted)] and drafted[0] == stats.drafts
    assert sum(drafted) == stats.draft_tokens and sum(accepted) == stats.accepted_tokens


def test_nothing_is_drafted_while_the_knob_is_zero(model_dir: Path) -> None:
    engine, watched = start(model_dir, {})
    run_all(engine, prompts(), PARAMS)
    assert watched.proposed == 0 and engine.speculator.stats.drafts == 0


def test_with_the_gate_each_draft_was_decided(model_dir: Path) -> None:
    engine, watched = start(model_dir, {"speculative_method": "early_exit"}, num_speculative_tokens=4)
    run_all(engine, prompts(), PARAMS)
    assert engine.speculator.gate is not None
    decisions = engine.speculator.gate.decisions.counts()
    assert decisions["steps_measured"] > 0 and (decisions["on"] + decisions["trials"] > 0) == (watched.proposed > 0)


def test_early_exit_takes_a_third_of_the_layers_or_what_is_asked(model_dir: Path) -> None:
    assert [default_depth(layers) for layers in (1, 2, 6, 18, 26)] == [1, 1, 2, 6, 8]
    options = EngineOptions(model_dir, speculative_method="early_exit", early_exit_layer=2)
    drafter = StepEngine(options, EventLog()).speculator.drafter
    assert isinstance(drafter, EarlyExitDrafter) and drafter.depth == 2


@pytest.mark.parametrize("layer", [0, -1, 3])
def test_an_early_exit_that_the_model_does_not_have_is_refused(model_dir: Path, layer: int) -> None:
    with pytest.raises((BadRequest, ValidationError), match="early_exit_layer"):
        StepEngine(EngineOptions(model_dir, speculative_method="early_exit", early_exit_layer=layer), EventLog())
