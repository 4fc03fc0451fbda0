"""What the plugin moves beside the limits, as the agent tells it and asks for it."""

from typing import Any

import pytest

from agents.backends.vllm.further_knobs import FURTHER, SOURCES, further_live, further_running, further_wanted
from agents.backends.vllm.live_change import obstacles
from agents.backends.vllm.readback import from_scheduler
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.reports.declared_knobs import kept_config
from tests.agents.backends.vllm.test_readback import TOLD

MORE = {
    "watermark": {"runs": 0.25, "started": 0, "why_not": ""},
    "prefill_schedule_interval": {"runs": 1, "started": 1, "why_not": "data parallel ranks must agree on it"},
}
SAID: dict[str, Any] = {**TOLD, "more": MORE}


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
