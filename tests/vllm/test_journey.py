"""On a real vLLM: requests to the API's percentiles, a decision to the scheduler and back, and accepted drafts, as
telemetry tells them of production and a study counts them of a replay."""

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from controlplane.contract import metrics
from controlplane.contract.bodies.nodes import NodeRole, TrialConfig
from controlplane.contract.histogram import RELATIVE_ERROR
from controlplane.contract.planning.draft_acceptance import DraftCounts, acceptance_text, compared
from controlplane.rollouts.judging.arms import window_ceiling
from tests.processes import wait_for
from tests.vllm import limits
from tests.vllm.journey import NODE, POOL, Journey
from tests.vllm.observation import engine_ids, told_by_vllm
from tests.vllm.prompts import prompts
from tests.vllm.real_vllm import VllmServer, token_ids
from tuner.study.study_planning import drafts_in_production
from tuner.study.trial_node import TrialNode

QUANTILES = (0.5, 0.95, 0.99)
MOST_ERROR = 0.022
REQUESTS = 60
OUTPUT_TOKENS = 24
SOON = timedelta(seconds=10)
LOOP = "for name in names:\n    total = total + name\n"
DRAFTING, DRAFTING_TOKENS = 32, 32
"""Requests whose drafts are counted, and the tokens of each answer."""


class LoneNode(TrialNode):
    """A server that is asked as a study asks it, without a control plane between."""

    def __init__(self, server: VllmServer) -> None:
        self.url, self.name, self.stop = server.url, "alone", threading.Event()
        self._engine = httpx.Client(base_url=server.url, timeout=30.0)


@pytest.fixture
def journey(
    request: pytest.FixtureRequest, vllm_server: VllmServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Journey]:
    """Its node is for trials; `request.param` may say another role."""
    made = Journey(tmp_path_factory.mktemp("journey"), vllm_server, getattr(request, "param", NodeRole.TRIAL))
    try:
        made.start("service")
        made.start("agent")
        yield made
    finally:
        made.end()


def neighbours(ordered: list[float], q: float) -> tuple[float, float]:
    """The two values that the quantile lies between."""
    place = int(q * (len(ordered) - 1))
    return ordered[place], ordered[min(place + 1, len(ordered) - 1)]


def test_the_apis_percentiles_are_vllms_own(vllm_server: VllmServer, journey: Journey) -> None:
    assert RELATIVE_ERROR < MOST_ERROR
    # What was served before, in another test, belongs to windows before this one.
    began = (int(time.time() / metrics.WINDOW_S) + 1) * metrics.WINDOW_S
    wait_for("a new window begins", lambda: time.time() >= began, metrics.WINDOW_S + 5)
    start = datetime.fromtimestamp(began, UTC)
    answers = vllm_server.complete_all(prompts(REQUESTS, seed=31), OUTPUT_TOKENS)
    assert not any(answer.failed for answer in answers)
    own = told_by_vllm(vllm_server, engine_ids(answers), began)
    with journey.client() as client:

        def counted(metric: str) -> int:
            return sum(series.count for series in client.quantiles(metric, start=start, end=_soon()).series)

        wait_for("every request is counted", lambda: counted("e2e") >= REQUESTS, 60)
        wait_for("every token is counted", lambda: counted("itl") >= len(own.itl), 60)
        exact = {"ttft": own.ttft, "itl": own.itl}
        for part in ("e2e", "queue", "prefill", "decode"):
            exact[part] = sorted(one[part] for one in own.finished.values())
        for metric, values in exact.items():
            (series,) = client.quantiles(metric, QUANTILES, start=start, end=_soon()).series
            assert series.count == len(values), metric
            assert series.mean == pytest.approx(sum(values) / len(values), rel=1e-6), metric
            for q in QUANTILES:
                low, high = neighbours(values, q)
                said = series.quantiles[str(q)]
                print(f"{metric} p{q * 100:g}: vLLM {low * 1e3:.3f} to {high * 1e3:.3f} ms, API {said * 1e3:.3f} ms")
                assert low * (1 - MOST_ERROR) <= said <= high * (1 + MOST_ERROR), (metric, q)

        def summed(metric: str) -> float:
            return sum(series.value for series in client.scalars(metric, start=start, end=_soon()).series)

        assert summed("requests") == REQUESTS
        assert summed("output_tokens") == sum(answer.output_tokens for answer in answers)
        assert summed("prompt_tokens") == sum(answer.prompt_tokens for answer in answers)
        assert summed("events_missed") == 0
        node = client.node(NODE)
        assert (node.backend, node.pool, node.connected, node.healthy) == ("vllm", POOL, True, True)
        # It goes with a heartbeat.
        wait_for("its agent has told it", lambda: client.node(NODE).unaccounted_share is not None)
        share = client.node(NODE).unaccounted_share
        assert share is not None and share < 0.02


def test_a_decision_reaches_the_scheduler_and_the_control_plane_says_where_it_read_it(
    vllm_server: VllmServer, journey: Journey
) -> None:
    pid = vllm_server.pid
    with journey.client() as client:
        wanted = {"max_num_seqs": 6, "prefill_chunk_size": 96, "num_speculative_tokens": [[2, 6], [6, 1]]}
        client.set_trial_config(NODE, TrialConfig(knobs={**limits.FULL, **wanted}))
        wait_for("the scheduler runs it", lambda: wanted.items() <= limits.told(vllm_server)["knobs"].items(), 60)
        says = limits.told(vllm_server)
        node = journey.wait_applied(says["revision"])
        assert node.effective is not None
        assert wanted.items() <= node.effective.knobs.items()
        for knob in (*wanted, "max_num_batched_tokens"):
            assert "scheduler" in node.effective.sources[knob], node.effective.sources
        assert not node.drift
    assert (vllm_server.pid, vllm_server.alive) == (pid, True)
    answers = vllm_server.complete_all(prompts(8, seed=32), 8)
    assert not any(answer.failed for answer in answers)


def looping(seed: int) -> list[list[int]]:
    return [token_ids(LOOP * 8 + f"# {seed} {place}\n") for place in range(DRAFTING)]


def totals(server: VllmServer) -> tuple[int, int, int]:
    """Draft tokens proposed and accepted, and requests that ended, of the same moment."""
    text = httpx.get(f"{server.url}/metrics", timeout=30).text

    def total(name: str) -> int:
        found = re.findall(rf"^vllm:{name}_total\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)
        assert found, f"vLLM tells no {name}"
        return round(sum(map(float, found)))

    return total("spec_decode_num_draft_tokens"), total("spec_decode_num_accepted_tokens"), total("request_success")


def served(server: VllmServer, texts: list[list[int]]) -> tuple[int, int]:
    """Draft tokens proposed and accepted while these were served, by vLLM's own counters."""
    before = totals(server)
    assert not any(answer.failed for answer in server.complete_all(texts, DRAFTING_TOKENS))
    # An answer's last words leave before the step that made them is counted.
    ended = before[2] + len(texts)
    wait_for("vLLM has counted their last steps", lambda: totals(server)[2] >= ended, 30)
    after = totals(server)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize("journey", [NodeRole.SERVING], indirect=True)
def test_acceptance_is_vllms_own_in_production_and_beside_it_in_a_replay(
    vllm_server: VllmServer, journey: Journey
) -> None:
    # The agent tells what the plugin kept of earlier tests, too, in the windows that it was served in.
    began = window_ceiling(datetime.now(UTC))
    wait_for("a window of its own", lambda: datetime.now(UTC) >= began, 10)
    own = served(vllm_server, looping(seed=1))

    def told() -> DraftCounts | None:
        now = datetime.now(UTC) + timedelta(seconds=10)
        with journey.client() as client:
            return drafts_in_production(client, POOL, now, (now - began).total_seconds())

    wait_for("the drafts are counted", lambda: (found := told()) is not None and found.drafted >= own[0], 60)
    production = told()
    assert production is not None and (production.drafted, production.accepted) == own

    node = LoneNode(vllm_server)
    runs = {}
    for name, texts in (("alike", looping(seed=2)), ("apart", prompts(DRAFTING, seed=33))):
        before = node.drafts()
        of_vllm = served(vllm_server, texts)
        after = node.drafts()
        assert before is not None and after is not None
        assert (after[0] - before[0], after[1] - before[1]) == of_vllm
        runs[name] = compared(production, [of_vllm])
    node.close()
    alike, unlike = runs["alike"], runs["apart"]
    assert alike is not None and unlike is not None
    print("; ".join(acceptance_text(one) for one in (alike, unlike)))
    assert not alike.differs and unlike.differs


def _soon() -> datetime:
    return datetime.now(UTC) + SOON
