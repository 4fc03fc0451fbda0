"""Where traffic goes: to what was given, or to what the service names, and to nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse_engine import SseEngine

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.errors import BadSettings, NotFound, Unavailable
from tests.processes import free_port
from tuner.traffic.targets import checked, model_of, models_at, targets_of_pool


def node(name: str, **more: Any) -> NodeView:
    given = {"pool": "chat", "role": "serving", "connected": True, "engine_url": f"http://{name}:7400/"}
    return NodeView.model_validate({"node": name, "backend": "vllm", "healthy": True, **given, **more})


def test_a_base_url_with_v1_is_the_same_engine() -> None:
    assert checked(["http://a:1/v1", "http://a:1/v1/", "http://a:1/"]) == 3 * ["http://a:1"]


@pytest.mark.parametrize("url", ["a:1", "ftp://a", "http://u:p@a", "http://a/?q=1", "http://169.254.169.254"])
def test_what_is_no_engines_url_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="target: "):
        checked([url])


def test_a_pools_targets_are_its_serving_nodes_that_can_be_reached() -> None:
    nodes = [
        node("a"),
        node("b", pool="batch"),
        node("c", role="trial"),
        node("d", connected=False),
        node("e", engine_url=None),
        node("f", engine_url="http://127.0.0.1:7401"),
    ]
    far = targets_of_pool(nodes, "chat", "https://tailwright.example")
    assert far.urls == ("http://a:7400",)
    assert [line.partition(":")[0] for line in far.left_out] == ["d", "e", "f"]
    for here in ("http://127.0.0.1:7300", "http://localhost:7300", "unix:/run/service.sock"):
        assert targets_of_pool(nodes, "chat", here).urls == ("http://a:7400", "http://127.0.0.1:7401")
    with pytest.raises(NotFound, match="pool 'chta' has no serving node"):
        targets_of_pool(nodes, "chta", "http://127.0.0.1:7300")


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True), min_size=1, max_size=4))
def test_the_model_is_served_by_all_or_refused(lists: list[list[str]]) -> None:
    served = {f"http://engine-{number}": models for number, models in enumerate(lists)}
    common = set.intersection(*map(set, lists))
    for wanted in (None, *"abcd"):
        if (wanted in common) if wanted else common:
            assert model_of(served, wanted) in common
        else:
            with pytest.raises(BadSettings, match="model: "):
                model_of(served, wanted)


def test_an_engine_lists_its_models(engine: SseEngine) -> None:
    engine.models = [{"id": "m"}, {"id": "n"}]
    assert models_at(engine.url, None) == ["m", "n"]
    engine.models = [{}]
    with pytest.raises(Unavailable, match="lists no models"):
        models_at(engine.url, None)
    with pytest.raises(Unavailable, match="answers 404: is it an OpenAI-compatible engine"):
        models_at(f"{engine.url}/elsewhere", None)


def test_what_does_not_answer_says_so(monkeypatch: pytest.MonkeyPatch, engine: SseEngine) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=f"{url} does not answer"):
        models_at(url, None)
    monkeypatch.setenv("HTTP_PROXY", url)
    assert models_at(engine.url, None) == [], "a proxy of the environment is not asked"
