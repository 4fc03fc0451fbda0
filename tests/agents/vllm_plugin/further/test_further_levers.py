"""What moves beside the limits: in which scheduler, from when, and read back how."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm.further.further_levers import Interval, further_levers
from tailwright_vllm.further.started_arguments import VARIABLE, started_arguments
from tailwright_vllm.knob_file import BadKnobFile, Capacity, parse
from tailwright_vllm.levers import Lever
from tailwright_vllm.limits import Limits

from tests.agents.vllm_plugin.vllm_trees import Scheduler, config_of

BLOCKS = 200


def scheduler_of(watermark: float = 0.0) -> Any:
    """vLLM 0.32's, as far as the further knobs touch it."""
    made = Scheduler(config_of(drafts=0))
    made.scheduler_config.watermark = watermark
    made.scheduler_config.prefill_schedule_interval = 1
    made.kv_cache_config = SimpleNamespace(num_blocks=BLOCKS)
    made.kv_cache_manager.watermark_blocks = int(watermark * BLOCKS)
    return made


def levers(scheduler: Any, interval: Interval | None = None) -> dict[str, Lever]:
    return {one.name: one for one in further_levers(scheduler, interval or Interval())}


def test_the_watermark_moves_in_blocks_and_is_read_back_as_it_was_asked_for() -> None:
    scheduler = scheduler_of()
    watermark = levers(scheduler)["watermark"]
    assert (watermark.why_not, watermark.read()) == ("", 0.0)
    watermark.move(0.333)
    assert scheduler.kv_cache_manager.watermark_blocks == 66
    assert watermark.read() == 0.333
    scheduler.kv_cache_manager.watermark_blocks = 20  # By somebody else.
    assert watermark.read() == 0.1


def test_the_interval_holds_prompts_back_in_all_steps_but_every_nth() -> None:
    interval = Interval()
    lever = levers(scheduler_of(), interval)["prefill_schedule_interval"]
    assert not any(map(interval.holds_back, range(8)))
    lever.move(4)
    assert [step for step in range(9) if not interval.holds_back(step)] == [0, 4, 8]
    assert lever.read() == 4


@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        (lambda s: delattr(s.kv_cache_manager, "watermark_blocks"), "watermark", "watermark_blocks"),
        (lambda s: setattr(s.kv_cache_manager, "watermark_blocks", None), "watermark", "watermark_blocks"),
        (lambda s: delattr(s.scheduler_config, "watermark"), "watermark", "watermark"),
        (
            lambda s: delattr(s.scheduler_config, "prefill_schedule_interval"),
            "prefill_schedule_interval",
            "prefill_schedule_interval",
        ),
        (
            lambda s: setattr(s.vllm_config.parallel_config, "data_parallel_size", 2),
            "prefill_schedule_interval",
            "ranks must agree",
        ),
    ],
)
def test_what_another_scheduler_lacks_stays_and_says_why(change: Any, name: str, why: str) -> None:
    scheduler = scheduler_of()
    change(scheduler)
    fixed = {name: one.why_not for name, one in levers(scheduler).items() if one.why_not}
    assert list(fixed) == [name] and why in fixed[name]


def test_a_schedule_without_the_parameter_is_left_alone() -> None:
    class Oldest:
        def schedule(self) -> Any: ...

    oldest = Oldest()
    oldest.__dict__.update(vars(scheduler_of()))
    assert "throttle_prefills" in levers(oldest)["prefill_schedule_interval"].why_not


def test_the_knob_file_moves_them_and_effective_tells_them(tmp_path: Path) -> None:
    scheduler = scheduler_of(watermark=0.1)
    more = {"watermark": 0.25, "prefill_schedule_interval": 4}
    (tmp_path / "knobs.json").write_text(json.dumps({"revision": 2, "knobs": {}, "more": more}))
    limits = Limits(scheduler, tmp_path)
    limits.write()
    told = json.loads((tmp_path / "effective.json").read_bytes())
    assert told["more"] == {
        "watermark": {"runs": 0.25, "started": 0.1, "why_not": ""},
        "prefill_schedule_interval": {"runs": 4, "started": 1, "why_not": ""},
    }
    assert limits.interval.steps == 4 and scheduler.kv_cache_manager.watermark_blocks == 50
    assert "watermark" not in told["knobs"]  # An older agent knows nothing of it.


@pytest.mark.parametrize(
    "more",
    [
        *({"watermark": value} for value in (1.0, -0.1, "0.5", True, None)),
        *({"prefill_schedule_interval": value} for value in (0, 1.5, True, 2**16)),
        {"block_size": 16},
        [],
    ],
)
def test_a_wrong_value_changes_nothing(more: Any) -> None:
    with pytest.raises(BadKnobFile):
        parse(json.dumps({"knobs": {}, "more": more}).encode(), Capacity(1024, 8, 0))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("block_size,gpu_memory_utilization", {"block_size": 32, "gpu_memory_utilization": 0.9}),
        ("max_model_len", {"max_model_len": 1024}),  # Two parts have it, with one value.
        ("cache_dtype", {}),  # A word may be a name for another.
        ("max_num_seqs", {}),  # Two parts, two values.
        ("no_such_thing,", {}),
        ("", {}),
    ],
)
def test_arguments_are_told_where_vllm_has_one_value_of_them(
    monkeypatch: pytest.MonkeyPatch, asked: str, told: dict[str, Any]
) -> None:
    cache = SimpleNamespace(block_size=32, gpu_memory_utilization=0.9, cache_dtype="auto", max_num_seqs=4)
    model = SimpleNamespace(max_model_len=1024)
    scheduler = SimpleNamespace(max_model_len=1024, max_num_seqs=8)
    config = SimpleNamespace(cache_config=cache, model_config=model, scheduler_config=scheduler)
    monkeypatch.setenv(VARIABLE, asked)
    assert started_arguments(SimpleNamespace(vllm_config=config)) == told
