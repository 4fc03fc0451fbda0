"""A trial node that says nothing itself (vLLM): what its agent reports counts, and a change gets the time it needs."""

import socket
import threading
from typing import Any

import httpx
import pytest
from sse_engine import SseEngine

from controlplane.contract import engine_address
from controlplane.contract.bodies.nodes import ChangeCost, ConfigStatus, EffectiveConfig, NodeView, TrialConfig
from controlplane.contract.errors import Conflict, NotFound, Unavailable
from controlplane.contract.knobs import ChangeClass, EngineConfig
from tuner.replay.replay import Stopped
from tuner.search import quality_gate
from tuner.search.space import build_space
from tuner.study import trial_node as module
from tuner.study.trial_node import ApplyFailed, TrialNode, _patience_s

KNOBS = EngineConfig(max_num_batched_tokens=512).knobs()
EFFECTIVE = EffectiveConfig(
    revision=1,
    knobs=KNOBS,
    change_classes={"quantization": ChangeClass.RESTART},
    live_limits={"max_num_batched_tokens": 1024},
    live_floors={"max_num_batched_tokens": 40},
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


class Away(Plane):
    """Does not answer the first two calls of each kind; then it takes them."""

    def __init__(self, *answers: NodeView, error: Exception) -> None:
        super().__init__(*answers)
        self.error = error
        self.calls = 0

    def _answers(self) -> None:
        self.calls += 1
        if self.calls % 3:
            raise self.error

    def set_trial_config(self, node: str, wanted: TrialConfig) -> NodeView:
        self._answers()
        return super().set_trial_config(node, wanted)

    def reset_cache(self, node: str) -> NodeView:
        self._answers()
        return super().reset_cache(node)


class Removed(Plane):
    """Knows the node no more."""

    def node(self, node: str) -> NodeView:
        raise NotFound(f"no node {node}")


def trial_node(plane: Plane, first: NodeView | None = None) -> TrialNode:
    return TrialNode(plane, first or view(), stop=threading.Event())  # type: ignore[arg-type]


def runs(**knobs: Any) -> EffectiveConfig:
    return EFFECTIVE.model_copy(update={"knobs": {**KNOBS, **knobs}})


def test_a_name_that_leads_to_a_cloud_s_metadata_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(2, 1, 6, "", (address, 0)) for address in ("10.1.2.3", "169.254.169.254")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(
        ApplyFailed, match=r"trial node t1: its engine http://gpu\.example: 169\.254\.169\.254 is link-local"
    ):
        trial_node(Plane(view()), view(engine_url="http://gpu.example"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found[:1])
    trial_node(Plane(view()), view(engine_url="http://gpu.example")).close()


def test_an_engine_outside_the_named_networks_is_not_called_and_its_name_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its agent tells where it is: the tuner's own machine, or a name whose owner says something else the next time."""
    networks = engine_address.networks_of(("10.0.0.0/8",))

    def node(url: str) -> TrialNode:
        told = view(engine_url=url)
        return TrialNode(Plane(told), told, stop=threading.Event(), networks=networks)  # type: ignore[arg-type]

    with pytest.raises(ApplyFailed, match=r"127\.0\.0\.1 is in none of the networks of engine_allow"):
        node("http://127.0.0.1:7300")
    asked = iter(["10.1.2.3", "10.1.2.3", "127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (next(asked), 0))])
    for url, called in (
        ("http://gpu.example:7400", "http://10.1.2.3:7400"),
        ("https://gpu.example", "https://gpu.example"),
    ):
        found = node(url)
        found.close()
        assert found.url == called
    with pytest.raises(ApplyFailed, match=r"127\.0\.0\.1 is in none"):
        node("http://gpu.example:7400")

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ApplyFailed, match="Name or service not known"):
        node("http://gpu.example:7400")


def test_whether_it_is_there_is_asked_anew() -> None:
    error = ApplyFailed("no answer")
    trial_node(Plane(view())).check_there(error)
    for gone in (Plane(view(connected=False)), Removed(view())):
        with pytest.raises(Stopped, match=r"trial node t1 is gone \(no answer\)"):
            trial_node(gone).check_there(error)


def test_capabilities_are_what_the_agent_reports() -> None:
    node = trial_node(Plane(view()))
    can = node.capabilities()
    assert can.quantization == ("none", "int8") and node.gives_token_ids
    space = build_space({}, KNOBS, can)
    assert max(space.values["max_num_batched_tokens"]) == 1024
    assert min(space.values["max_num_batched_tokens"]) == 64, "32 is below what its scheduler can work with"
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


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), Unavailable("the database is not available")])
def test_a_control_plane_that_is_started_again_ends_no_study(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(module, "_AWAY_POLL_S", 0.0)
    plane = Away(view(effective=runs(max_num_seqs=4)), error=error)
    trial_node(plane).apply({**KNOBS, "max_num_seqs": 4})
    assert (plane.calls, len(plane.wanted)) == (3, 1)


@pytest.mark.parametrize(("error", "calls"), [(Conflict("another study has it"), 1), (httpx.ConnectError("gone"), 2)])
def test_what_lasts_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception, calls: int) -> None:
    monkeypatch.setattr(module, "_AWAY_POLL_S", 0.0)
    monkeypatch.setattr(module, "_AWAY_S", 0.0 if calls > 1 else 60.0)
    plane = Away(view(), error=error)
    with pytest.raises(type(error)):
        trial_node(plane).apply(KNOBS)
    assert 1 <= plane.calls <= calls
