"""A trial node that says nothing itself (vLLM): what its agent reports counts, and a change gets the time it needs."""

import threading
from typing import Any

import pytest
from sse_engine import SseEngine

from controlplane.contract.bodies.nodes import ChangeCost, ConfigStatus, EffectiveConfig, NodeView, TrialConfig
from controlplane.contract.knobs import ChangeClass, EngineConfig
from tuner.search import quality_gate
from tuner.search.space import build_space
from tuner.study.trial_node import ApplyFailed, TrialNode, _patience_s

KNOBS = EngineConfig(max_num_batched_tokens=512).knobs()
EFFECTIVE = EffectiveConfig(
    revision=1,
    knobs=KNOBS,
    change_classes={"quantization": ChangeClass.RESTART},
    live_limits={"max_num_batched_tokens": 1024},
    limits={"max_num_batched_tokens": 1024, "num_speculative_tokens": 0},
    formats=["none", "int8"],
    costs={ChangeClass.RESTART: ChangeCost(count=1, last_s=200.0, mean_s=200.0)},
)


def view(**changed: Any) -> NodeView:
    given = {
        "node": "t1", "pool": "p-trial", "role": "trial", "backend": "vllm", "model": "m", "connected": True,
        "healthy": True, "engine_url": "http://127.0.0.1:9", "effective": EFFECTIVE, "desired_revision": 1,
        "config_status": "applied",
    }  # fmt: skip
    return NodeView.model_validate(given | changed)


class Plane:
    """The two calls that a trial node makes of the control plane; `answers` are what it sees, one after the other."""

    def __init__(self, *answers: NodeView) -> None:
        self.answers = list(answers)
        self.wanted: list[dict[str, Any]] = []
        self.resets = 0

    def set_trial_config(self, node: str, wanted: TrialConfig) -> NodeView:
        self.wanted.append(wanted.knobs)
        return self.node(node)

    def reset_cache(self, node: str) -> NodeView:
        self.resets += 1
        return self.node(node).model_copy(update={"desired_cache_reset": self.resets})

    def node(self, node: str) -> NodeView:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def trial_node(plane: Plane, first: NodeView | None = None) -> TrialNode:
    return TrialNode(plane, first or view(), stop=threading.Event())  # type: ignore[arg-type]


def runs(**knobs: Any) -> EffectiveConfig:
    return EFFECTIVE.model_copy(update={"knobs": {**KNOBS, **knobs}})


def test_capabilities_are_what_the_agent_reports() -> None:
    node = trial_node(Plane(view()))
    can = node.capabilities()
    assert can.quantization == ("none", "int8") and node.gives_token_ids
    space = build_space({}, KNOBS, can)
    assert max(space.values["max_num_batched_tokens"]) == 1024
    assert "num_speculative_tokens" not in space.values  # vLLM was started without drafts.
    bare = trial_node(
        Plane(view()), view(effective=EffectiveConfig(revision=1, knobs={**KNOBS, "quantization": "fp8"}))
    )
    assert bare.capabilities().quantization == ("fp8",)


def test_charges_go_by_what_the_node_runs_now() -> None:
    int8 = view(effective=runs(quantization="int8"))
    node = trial_node(Plane(view(config_status="applying"), int8))
    assert node.charge({**KNOBS, "quantization": "int8"}) == 200.0
    assert node.charge({**KNOBS, "max_num_seqs": 4}) < 1.0
    node.apply({**KNOBS, "quantization": "int8"})
    # The change itself was quick here, and from then on that counts; going on within int8 needs no restart.
    assert 0.0 < node.change_s == node.charge(KNOBS) < 30.0
    assert node.charge({**KNOBS, "quantization": "int8", "max_num_seqs": 4}) < 1.0
    assert node.charge({**KNOBS, "quantization": "int8"}, before=KNOBS) == node.charge(KNOBS)


def test_a_change_that_failed_is_charged_and_says_why() -> None:
    failed = view(config_status="failed", config_error="no int8 kernel", desired_revision=2)
    node = trial_node(Plane(view(config_status="applying", desired_revision=2), failed))
    with pytest.raises(ApplyFailed, match="no int8 kernel"):
        node.apply({**KNOBS, "quantization": "int8"})
    assert node.change_s > 0.0
    assert node.charge({**KNOBS, "quantization": "int8"}) == 200.0  # A failure teaches no price.


def test_patience_is_that_of_the_change() -> None:
    applying = view(config_status=ConfigStatus.APPLYING)
    assert _patience_s(view(), ChangeClass.LIVE) == 30.0
    assert _patience_s(applying, ChangeClass.LIVE) == 600.0
    assert _patience_s(view(config_status=ConfigStatus.APPLYING, connected=False), ChangeClass.LIVE) == 30.0
    assert _patience_s(applying, ChangeClass.RESTART) == 800.0  # Four times what it has cost.
    assert _patience_s(view(effective=None), ChangeClass.RESTART) == 600.0


def test_a_cache_is_empty_once_the_node_has_done_as_often_as_it_was_asked() -> None:
    done = [view(effective=EFFECTIVE.model_copy(update={"cache_reset": count})) for count in (0, 0, 1)]
    assert trial_node(plane := Plane(*done)).reset_cache()
    assert len(plane.answers) == 1


def test_an_engine_without_a_way_is_asked_once() -> None:
    node = trial_node(plane := Plane(view(effective=EFFECTIVE.model_copy(update={"cache_reset": None}))))
    assert [node.reset_cache(), node.reset_cache()] == [False, False]
    assert plane.resets == 1


def test_the_longest_request_is_what_the_server_lists(engine: SseEngine) -> None:
    node = trial_node(Plane(view()), view(engine_url=engine.url))
    assert node.max_total() is None
    engine.models = [{"id": "other", "max_model_len": 64}, {"id": "m", "max_model_len": 1024}]
    assert node.max_total() == 1024
    node.close()


def test_the_gate_compares_token_numbers_where_they_can_be_had(engine: SseEngine) -> None:
    engine.first_token = lambda prompt: "\ufffd"
    engine.token_id = lambda prompt: sum(prompt) % 7
    prompts = [[1, 2, 3], [1, 2, 4]]
    assert quality_gate.next_tokens(engine.url, "m", prompts) == ["\ufffd", "\ufffd"]
    assert quality_gate.next_tokens(engine.url, "m", prompts, token_ids=True) == ["6", "0"]
