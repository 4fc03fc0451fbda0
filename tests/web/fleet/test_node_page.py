"""What a page says of a node: knobs with source and class, limits, costs, what is degraded; and of coarse quantiles."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controlplane.command.node_text import changes_text, knobs_text, memory_text
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeView
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.telemetry import (
    QuantilePoint,
    QuantilesAnswer,
    QuantileSeries,
    ScalarPoint,
    ScalarsAnswer,
    ScalarSeries,
)
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.histogram import error_text
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.metrics import CLOCK_OFFSET, CLOCK_OFFSET_ERROR
from controlplane.contract.on_call.incidents import Incident, IncidentDetail
from controlplane.contract.reports.node_memory import NodeMemory
from tests.web.part_html import NOW, part_html
from web.fleet import node_gpu, node_page

WARMED = ChangeCost(count=1, last_s=4.0, mean_s=4.0, warm_ups=1, warm_up_s=8.0, capacity_lost_s=2.4)
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
    labels={"region": "eu-1", "gpu": "H100"},
    effective=EffectiveConfig(
        revision=2,
        knobs={**EngineConfig().knobs(), "max_num_batched_tokens": 256},
        sources={"max_num_batched_tokens": "vLLM scheduler: max_num_scheduled_tokens"},
        change_classes={"quantization": ChangeClass.RESTART, "max_num_batched_tokens": ChangeClass.LIVE},
        live_limits={"max_num_batched_tokens": 1024},
        limits={"max_num_batched_tokens": 2048},
        formats=["none", "int8"],
        costs={
            ChangeClass.RESTART: ChangeCost(count=2, last_s=80.0, mean_s=71.5, unavailable_s=3.25),
            ChangeClass.SWAP: WARMED,
        },
    ),
)


class OneNode:
    """The calls that the page makes. `clock`: offset and error, where the node has told them."""

    def __init__(self, clock: tuple[float, float] | None = None) -> None:
        self._clock = dict(zip((CLOCK_OFFSET.short, CLOCK_OFFSET_ERROR.short), clock or (), strict=False))

    def scalars(self, metric: str, *, by: Sequence[str], node: str | None, **_: Any) -> ScalarsAnswer:
        assert (list(by), node) in ((["node"], NODE.node), (["node"], None))
        labels = {"node": NODE.node}
        series = [ScalarSeries(labels=labels, value=self._clock[metric])] if metric in self._clock else []
        now = datetime(2030, 1, 1, tzinfo=UTC)
        return ScalarsAnswer(metric=metric, unit="s", kind="gauge", start=now, end=now, series=series)

    def node(self, name: str) -> NodeView:
        assert name == NODE.node
        return NODE

    def config(self, number: int) -> Revision:
        now = datetime(2030, 1, 1, tzinfo=UTC)
        return Revision(number=number, hash="h", knobs=EngineConfig(), created_by="t", created_at=now)


def rendered(name: str, client: OneNode | None = None) -> str:
    return " ".join(part_html(node_page.PAGE, name, client or OneNode(), node_name=NODE.node).split())


def test_a_nodes_page_shows_all_that_its_agent_reports() -> None:
    page = rendered("node")
    for wanted in (
        "backend vllm",
        "Serves, but: engine: no plugin, limits cannot be moved",
        "none, int8",
        "<dt>Labels</dt><dd>gpu=H100, region=eu-1</dd>",
        '>max_num_batched_tokens</abbr></td><td data-label="Runs">256</td><td data-label="Wanted">512</td>'
        '<td data-label="A change is">live</td><td class="number" data-label="Live up to">1024</td>'
        '<td class="number" data-label="At most">2048</td>'
        '<td class="whole" data-label="Read from">vLLM scheduler: max_num_scheduled_tokens</td>',
        '<td>restart</td><td class="number">71.5 s</td><td class="number">80.0 s</td>'
        '<td class="number">3.25 s</td><td class="number">not measured</td><td class="number">not measured</td>'
        '<td class="number">2</td>',
        '<td class="number">not at all</td><td class="number">8.00 s</td><td class="number">2.40 s</td>',
    ):
        assert wanted in page, wanted
    assert '<tr data-knob="max_num_batched_tokens" class="picked">' in page
    assert '<tr data-knob="quantization" >' in page and "<td>restart</td>" in page


def test_what_differs_is_said_as_a_sentence() -> None:
    page = rendered("node")
    assert "max_num_batched_tokens runs 256, wanted 512." in page
    assert '<a href="/configs?a=2&amp;b=3&amp;pool=chat">' in page or "/configs?pool=chat&amp;a=2&amp;b=3" in page


HOLDS = NodeMemory(
    limit_bytes=2**34,
    weights_bytes=2**30,
    weights_bytes_by_format={"none": 2**30, "int8": 2**28},
    draft_weights_bytes=0,
    kv_cache_memory_bytes=2**29,
    kv_cache_size_tokens=2**15,
    max_model_len=2**11,
    activation_bytes_per_token=2**20,
)


def holding(memory: NodeMemory | None) -> NodeView:
    assert NODE.effective is not None
    return NODE.model_copy(update={"effective": NODE.effective.model_copy(update={"memory": memory})})


def test_what_the_memory_holds_is_told_by_term() -> None:
    class Holding(OneNode):
        def node(self, name: str) -> NodeView:
            return holding(HOLDS)

    page = rendered("node", Holding())
    for name, told, more in (
        ("weights", "1.00 GiB", "in none; at least in others: int8 256 MiB"),
        ("KV cache", "512 MiB", "32768 tokens, 16.0 KiB a token, 16 requests of 2048 tokens at once"),
        ("activations", "256 MiB", "of the largest step, at least"),
        ("logits", "not told", "of the largest step, at least"),
        ("needed", "1.75 GiB", "at least; what is not told is not in it"),
        ("there is", "16.0 GiB", ""),
    ):
        row = f'<tr data-memory="{name}"><td>{name}</td><td class="number" data-label="Bytes">{told}</td>'
        assert f'{row}<td class="whole" data-label="More">{more}</td></tr>' in page, name
    assert 'data-memory="draft weights"' not in page
    assert "whether a configuration fits there is not known" in rendered("node")


def test_the_memory_in_a_line() -> None:
    assert memory_text(holding(None)) == "-"
    assert memory_text(holding(HOLDS)).endswith(" of 16.0 GiB; not told: logits")


class Told(OneNode):
    """A node with an alert, another's, and a line in the ledger. Its pool is slower than it."""

    def alerts(self) -> list[Alert]:
        about = {"fingerprint": "f", "rule_id": 1, "severity": "page", "summary": "slow", "started_at": NOW}
        return [
            Alert.model_validate({**about, "id": at, "rule": rule, "state": state, "labels": {"node": node}})
            for at, rule, state, node in (
                (1, "Old", "resolved", NODE.node),
                (2, "New", "firing", NODE.node),
                (3, "Other", "firing", "gpu 2"),
            )
        ]

    def incidents(self, **asked: Any) -> list[Incident]:
        assert asked == {"pool": NODE.pool, "open": True}
        return [self.incident(number) for number in (8, 7)]

    def incident(self, number: int) -> IncidentDetail:
        """The seventh has the node's alert, the other another node's."""
        about = {"id": number, "state": "open", "severity": "page", "title": f"title {number}", "pool": NODE.pool}
        about |= {"owner": None, "route": None, "onset_at": NOW, "opened_at": NOW, "alerts": 1, "firing": 1}
        about |= {"silenced": False, "stage": None, "causes": [], "notes": [], "timeline": []}
        alert = next(one for one in self.alerts() if one.id == (2 if number == 7 else 3))
        return IncidentDetail.model_validate(about | {"members": [{"alert": alert, "joined_at": NOW, "why": "first"}]})

    def requests(self, **asked: Any) -> Page[RequestRecord]:
        assert (asked["node"], asked["order"], asked["pool"]) == (NODE.node, "slowest", None)
        told = {"pool": "chat", "model": "m", "request_id": "a/b", "arrival": NOW, "parts": {"e2e": 2.0, "ttft": 1.5}}
        counts = {"revision": 2, "prompt_tokens": 9, "cached_tokens": 0, "output_tokens": 4, "finish_reason": "stop"}
        return Page(items=[RequestRecord.model_validate({"node": NODE.node, **told, **counts})], next=None)

    def ledger(self, *, subject: str = "", **_: Any) -> list[Any]:
        assert subject in ("", f"node/{NODE.node}")
        return []

    def quantiles(self, metric: str, q: Sequence[float], **asked: Any) -> QuantilesAnswer:
        if asked.get("by"):
            ran = [QuantileSeries(labels={"revision": "1"}, count=1200, quantiles={"0.99": 0.7})]
            return QuantilesAnswer(metric=metric, unit="s", start=NOW, end=NOW, relative_error=0.01, series=ran)
        value = 0.4 if asked.get("node") == NODE.node else 0.9
        point = QuantilePoint(time=NOW, count=5, quantiles={"0.99": value})
        series = [QuantileSeries(labels={}, count=5, quantiles=point.quantiles, points=[point])]
        return QuantilesAnswer(metric=metric, unit="s", start=NOW, end=NOW, relative_error=0.01, series=series)


def test_its_own_alerts_are_told_the_open_ones_first() -> None:
    page = rendered("node_story", Told())
    assert page.index(">New<") < page.index(">Old<") and ">Other<" not in page


def test_an_open_incident_that_has_its_alert_is_told_before_all_else() -> None:
    page = rendered("node_story", Told())
    assert page.index("title 7") < page.index(">New<") and "title 8" not in page


def test_its_slowest_requests_lead_to_their_pages_and_to_all() -> None:
    page = rendered("node_requests", Told())
    assert 'href="/requests/a%2Fb?' in page and "on=gpu+1" in page
    assert '<td class="number" data-label="E2E">2.00 s</td>' in page
    assert "/requests?node=gpu+1&amp;order=slowest" in page or "order=slowest&amp;node=gpu+1" in page


def test_its_revisions_are_those_that_served_that_run_and_that_are_wanted() -> None:
    page = rendered("node_revisions", Told())
    rows = re.findall(r'<tr data-revision="(\d+)">(.*?)</tr>', page)
    assert [number for number, _ in rows] == ["3", "2", "1"]
    wanted, runs, served = (row for _, row in rows)
    assert ">wanted<" in wanted and ">runs<" in runs and "<td" in served and ">runs<" not in served
    assert ">1,200</td>" in served and ">700 ms</td>" in served and ">0</td>" in runs and ">–</td>" in runs
    assert '<a href="/configs?a=1" data-row>1</a>' in served


def test_its_p99_is_drawn_over_its_pools() -> None:
    page = rendered("against_pool", Told())
    assert page.startswith('<p class="says">p99 of gpu 1 was 400 ms') and "</svg>p99 of pool chat</span>" in page


def test_the_command_line_says_the_same_in_text() -> None:
    assert "max_num_batched_tokens=256" in knobs_text(NODE) and "quantization=none (restart)" in knobs_text(NODE)
    told = changes_text(NODE)
    assert "formats: none, int8" in told
    assert "a restart change: 71.5 s on average, 80.0 s last, requests waited 3.25 s" in told
    warm = "warm after 8.00 s more; 2.40 s of full capacity lost"
    assert f"a swap change: 4.00 s on average, 4.00 s last, {warm}" in told


def test_a_clock_is_shown_where_it_is_known_with_a_hint_where_it_is_far_off() -> None:
    known, far = OneNode((0.0004, 0.001)), OneNode((-12.5, 0.02))
    assert "<dt>Clock</dt>" not in rendered("node")
    shown = rendered("node", known)
    assert "<dt>Clock</dt><dd>400 µs behind the service&#39;s, ± 1 ms</dd>" in shown and "NTP" not in shown
    assert "12.5 s ahead of the service&#39;s, ± 20 ms" in (page := rendered("node", far))
    assert "set the node&#39;s clock (NTP)" in page


def test_coarse_quantiles_are_marked_and_exact_ones_are_not() -> None:
    assert error_text(0.6) == "± 60 %: from /metrics buckets"
    assert error_text(0.0218) == ""


class WithGpu(OneNode):
    """A node whose agent told of its GPU at three moments; `values` by the metric's short name."""

    def __init__(self, **values: Sequence[float]) -> None:
        super().__init__()
        self._values = values

    def scalars(self, metric: str, *, step: str = "", **asked: Any) -> ScalarsAnswer:
        assert asked["node"] == NODE.node
        told = [
            ScalarPoint(time=NOW + timedelta(seconds=place), value=value)
            for place, value in enumerate(self._values.get(metric, ()))
        ]
        series = [ScalarSeries(labels={}, value=told[-1].value, points=told if step else None)] if told else []
        return ScalarsAnswer(metric=metric, unit="1", kind="gauge", start=NOW, end=NOW, series=series)

    def ledger(self, **_: Any) -> list[Any]:
        return []


def test_a_gpu_is_drawn_where_the_node_tells_of_one_and_its_throttling_is_said_in_words() -> None:
    told = WithGpu(gpu_clock=(900, 1200), gpu_clock_max=(1980, 1980), gpu_throttle_reason=(0x4, 0x44, 0x4, 0x0))
    clock = rendered("node-gpu-clock", told)
    assert "clock was 1,200 MHz at last." in clock and "2,000 MHz</text>" in clock and clock.count('class="curve') == 4
    page = rendered("gpu", told)
    found = re.findall(r'<tr data-reason="([^"]+)"><td>[^<]+</td><td class="number">(\d+ %)', page)
    assert found == [("power cap", "75 %"), ("heat (hardware)", "25 %")]
    assert "Nothing held its clocks down" in rendered("gpu", WithGpu(gpu_clock=(900,), gpu_throttle_reason=(0,)))
    assert "driver does not tell why" in rendered("gpu", WithGpu(gpu_temperature=(60,)))


def test_without_a_gpu_the_page_says_what_would_fill_it_and_draws_nothing() -> None:
    page = rendered("gpu", WithGpu())
    assert "nvidia-ml-py" in page and "deploy/locks/gpu.txt" in page and "--host-metrics" in page
    assert Path("deploy/locks/gpu.txt").is_file()
    for part in node_gpu.CHARTS:
        assert 'class="curve' not in rendered(part.name, WithGpu())


class Measured(OneNode):
    """A node whose agent measures its host. Values by the metric's short name, as a minute's total or newest value."""

    def __init__(self, **values: float) -> None:
        super().__init__()
        self._clock = values


def test_a_nodes_host_is_shown_and_what_is_not_measured_is_said() -> None:
    told = Measured(host_other_cpu=0.93, host_major_faults=72_000.0, host_cpu_limit=1.5)
    page = rendered("host", told)
    assert '<tr data-host="host_other_cpu"><td>other cpu</td><td>93 %</td>' in page
    assert "<td>major faults</td><td>1,200 a second</td>" in page and "<td>1.5 CPUs</td>" in page
    assert "<td>steal</td><td>not measured</td>" in page and "gpu" not in page


def test_a_gpu_is_shown_where_there_is_one() -> None:
    told = Measured(gpu_clock=1200.0, gpu_throttle_reason=68.0, gpu_temperature=91.0, gpu_xid=0.0)
    page = rendered("host", told)
    for shown in ("1,200 MHz", "power cap, heat (hardware)", "91 °C", "<td>gpu xid</td><td>none</td>"):
        assert shown in page, shown
