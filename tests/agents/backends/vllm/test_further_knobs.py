"""What the plugin moves beside the limits, as the agent tells it and asks for it."""

from typing import Any

import pytest

from agents.backends.vllm.further_knobs import (
    FURTHER,
    NO_LIMIT,
    SOURCES,
    further_live,
    further_running,
    further_wanted,
    knob_file_parts,
    queue_limits_change,
    with_queue_limits,
)
from agents.backends.vllm.live_change import obstacles
from agents.backends.vllm.readback import from_scheduler
from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.study_checks import check_range
from controlplane.contract.reports.declared_knobs import by_some, kept_config
from controlplane.terminal.studies.study_options import space_of
from tests.agents.backends.vllm.test_readback import TOLD
from tuner.search.space import Capabilities, build_space

MORE = {
    "watermark": {"runs": 0.25, "started": 0, "why_not": ""},
    "prefill_schedule_interval": {"runs": 1, "started": 1, "why_not": "data parallel ranks must agree on it"},
}
SAID: dict[str, Any] = {**TOLD, "more": MORE}
QUEUE = {
    "limits": {
        "max_num_queued_reqs": {"runs": 8, "started": None, "why_not": ""},
        "max_num_queued_tokens": {"runs": None, "started": 4096, "why_not": ""},
    }
}
SERVED = with_queue_limits(SAID, QUEUE)


def test_what_can_be_moved_is_declared_with_its_start_and_read_back() -> None:
    found = from_scheduler(SAID, {})
    assert list(found.declared) == ["watermark"]
    own = found.declared["watermark"]
    assert (own.change_class, own.start, own.maximum) == (ChangeClass.LIVE, 0.0, 0.9)
    assert (found.knobs["watermark"], found.sources["watermark"]) == (0.25, SOURCES["watermark"])
    assert "watermark" not in found.limits


@pytest.mark.parametrize("more", [{}, {"watermark": None}, {"watermark": {"runs": None, "started": None}}])
def test_where_the_scheduler_tells_none_there_is_none(more: dict[str, Any]) -> None:
    assert further_live({**TOLD, "more": more}) == {} == further_running({**TOLD, "more": more})
    assert from_scheduler({**TOLD, "more": more}, {}).declared == {}


def test_what_nobody_names_goes_back_to_its_start() -> None:
    assert further_wanted({}, SAID, {}) == {"watermark": 0.0}
    assert further_wanted({"watermark": 0.5}, SAID, {}) == {"watermark": 0.5}
    file_says = {"watermark": FURTHER["watermark"].model_copy(update={"start": 0.1})}
    assert further_wanted({}, SAID, file_says) == {"watermark": 0.1}


def test_it_is_live_and_another_name_wants_a_restart() -> None:
    runs = TOLD["knobs"] | {"watermark": 0.5}
    assert obstacles(kept_config(runs), SAID) == []
    (obstacle,) = obstacles(kept_config(runs | {"block_size": 32}), SAID)
    assert obstacle.knob == "block_size" and "an unknown value" in obstacle.message


def test_queue_limits_are_told_as_numbers_of_which_the_largest_is_none() -> None:
    found = from_scheduler(SERVED, {})
    assert list(found.declared) == ["watermark", "max_num_queued_reqs", "max_num_queued_tokens"]
    assert {name: knob.start for name, knob in found.declared.items()} == {
        "watermark": 0.0, "max_num_queued_reqs": 1_000_000, "max_num_queued_tokens": 4096,
    }  # fmt: skip
    assert (found.knobs["max_num_queued_reqs"], found.knobs["max_num_queued_tokens"]) == (8, 100_000_000)
    assert found.sources["max_num_queued_reqs"] == "vLLM server: scheduler_config.max_num_queued_reqs"
    assert not NO_LIMIT.keys() & found.limits.keys()


@pytest.mark.parametrize("name", NO_LIMIT)
def test_the_number_for_none_is_said_where_people_read_and_is_the_largest(name: str) -> None:
    knob = FURTHER[name]
    assert knob.maximum == knob.start == NO_LIMIT[name] and f"{NO_LIMIT[name]}: no limit" in knob.help


def test_the_plugin_is_asked_in_vllms_own_terms() -> None:
    wanted = {"watermark": 0.5, "max_num_queued_reqs": 1_000_000, "max_num_queued_tokens": 512}
    assert knob_file_parts(wanted) == {
        "more": {"watermark": 0.5},
        "queue_limits": {"max_num_queued_reqs": None, "max_num_queued_tokens": 512},
    }
    assert knob_file_parts({"watermark": 0.5}) == {"more": {"watermark": 0.5}}
    assert knob_file_parts({}) == {}


def test_what_runs_goes_back_to_the_plugin_as_it_was() -> None:
    assert knob_file_parts(further_running(SERVED))["queue_limits"] == {
        "max_num_queued_reqs": 8, "max_num_queued_tokens": None,
    }  # fmt: skip


def test_the_server_process_is_waited_for_only_where_a_queue_limit_changes() -> None:
    runs = further_running(SERVED)
    assert not queue_limits_change(runs, SERVED)
    assert not queue_limits_change(runs | {"watermark": 0.75}, SERVED)
    assert queue_limits_change(runs | {"max_num_queued_reqs": 9}, SERVED)
    assert queue_limits_change(further_wanted({}, SERVED, {}), SERVED)  # Back to the start.


@pytest.mark.parametrize(
    "limits",
    [
        None,
        [],
        {},
        {"max_num_queued_reqs": None},
        {"max_num_queued_reqs": {"runs": 8}},
        {"max_num_queued_reqs": {"runs": "8", "started": None, "why_not": ""}},
        {"max_num_queued_reqs": {"runs": True, "started": None, "why_not": ""}},
        {"max_num_queued_reqs": {"runs": 8, "started": 8, "why_not": "each of vLLM's 2 API servers has its own"}},
        {"max_num_queued_reqs": {"runs": None, "started": None, "why_not": "another"}},
        {"something_else": {"runs": 8, "started": 8, "why_not": ""}},
    ],
)
def test_a_queue_limit_that_is_not_told_or_stays_is_no_knob(limits: Any) -> None:
    found = from_scheduler(with_queue_limits(SAID, {"limits": limits}), {})
    assert list(found.declared) == ["watermark"] and not NO_LIMIT.keys() & found.knobs.keys()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("max_num_queued_reqs=4..64", [4, 9, 14, 19, 24, 29, 34, 39, 44, 49, 54, 59, 64, 1_000_000]),
        ("max_num_queued_reqs=4..64:log", [4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 51, 64, 1_000_000]),
        ("max_num_queued_tokens=512,4096", [512, 4096, 100_000_000]),
        ("max_num_queued_tokens=100000000..100000000", [100_000_000]),
    ],
)
def test_a_study_searches_queue_limits_with_none_behind_them_all(text: str, values: list[int]) -> None:
    ((name, asked),) = space_of([text]).items()
    wanted, declared = KnobRange(**asked), from_scheduler(with_queue_limits(TOLD, QUEUE), {}).declared
    check_range(name, wanted, by_some([declared]))
    default = {**TOLD["knobs"], "quantization": "none", name: NO_LIMIT[name]}
    space = build_space({name: wanted}, default, Capabilities(declared=declared))
    assert space.values == ({name: values} if len(values) > 1 else {})
    assert all(space.ordered)
