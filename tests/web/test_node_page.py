"""What a page says of a node: knobs with source and class, limits, costs, what is degraded; and of coarse quantiles."""

from datetime import UTC, datetime
from typing import Any

from controlplane.command.status import runs_text
from controlplane.contract.configs import Revision
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.nodes import ChangeCost, EffectiveConfig, NodeView
from web.dashboard import templates
from web.format import coarse
from web.views import context_of

NODE = NodeView(
    node="gpu 1",
    pool="chat",
    role="serving",
    backend="vllm",
    model="m",
    connected=True,
    healthy=True,
    health_detail="engine: no plugin, limits cannot be moved",
    desired_revision=3,
    effective=EffectiveConfig(
        revision=2,
        knobs={**EngineConfig().knobs(), "max_num_batched_tokens": 256},
        sources={"max_num_batched_tokens": "vLLM scheduler: max_num_scheduled_tokens"},
        change_classes={"quantization": ChangeClass.RESTART, "max_num_batched_tokens": ChangeClass.LIVE},
        live_limits={"max_num_batched_tokens": 1024},
        limits={"max_num_batched_tokens": 2048},
        formats=["none", "int8"],
        costs={ChangeClass.RESTART: ChangeCost(count=2, last_s=80.0, mean_s=71.5, unavailable_s=3.25)},
    ),
)


class OneNode:
    """The two calls that the page makes."""

    def node(self, name: str) -> NodeView:
        assert name == NODE.node
        return NODE

    def nodes(self) -> list[NodeView]:
        return [NODE]

    def config(self, number: int) -> Revision:
        now = datetime(2030, 1, 1, tzinfo=UTC)
        return Revision(number=number, hash="h", knobs=EngineConfig(), created_by="t", created_at=now)


def rendered(name: str, params: dict[str, str]) -> str:
    context: dict[str, Any] = context_of(name, OneNode(), params)  # type: ignore[arg-type]
    text: str = templates.get_template(f"fragments/{name}.html").render(**context)
    return " ".join(text.split())


def test_a_nodes_page_shows_all_that_its_agent_reports() -> None:
    page = rendered("node", {"node": "gpu 1"})
    for wanted in (
        "backend vllm",
        "Serves, but: engine: no plugin, limits cannot be moved",
        "none, int8",
        "<td>max_num_batched_tokens</td><td>256</td><td>512</td><td>live</td><td>1024</td><td>2048</td>"
        '<td class="left">vLLM scheduler: max_num_scheduled_tokens</td>',
        "<td>restart</td><td>71.50 s</td><td>80.00 s</td><td>3.25 s</td><td>2</td>",
    ):
        assert wanted in page, wanted
    assert '<tr data-knob="max_num_batched_tokens" class="picked">' in page
    assert '<tr data-knob="quantization" >' in page and "<td>restart</td>" in page


def test_the_fleet_marks_a_degraded_node_and_links_to_it() -> None:
    page = rendered("fleet", {})
    assert 'title="engine: no plugin, limits cannot be moved">degraded</span>' in page
    assert '<a href="/nodes/gpu%201">gpu 1</a>' in page and "vllm · m" in page


def test_status_says_the_same_in_text() -> None:
    text = runs_text(NODE)
    assert "max_num_batched_tokens=256" in text and "quantization=none (restart)" in text
    assert "formats: none, int8" in text
    assert "a restart change: 72 s on average, 80 s last, requests waited 3.2 s" in text


def test_coarse_quantiles_are_marked_and_exact_ones_are_not() -> None:
    assert coarse(0.6) == "± 60 %: from /metrics buckets"
    assert coarse(0.0218) == ""
