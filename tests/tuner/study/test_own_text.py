"""A trial at a real engine, the bundled model with n-gram drafts: what is accepted and what repeats is of the text."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.engine.core.engine import Engine
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import EngineConfig, parse_config
from tests.agents.engine.serving import serving
from tuner.study.trial_node import TrialNode
from tuner.study.trial_run import Bench, Measured
from tuner.workload.capture import slice_for_node
from tuner.workload.corpus import engine_tokenizer, read_tokens
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.prompt_dealer import TokenPrompt

pytestmark = pytest.mark.slow

BUNDLED = Path(__file__).resolve().parents[3] / "agents/models/tailwright-py-5m"
DRAFTING = EngineConfig(num_speculative_tokens=4).knobs()
TRAFFIC = generate(fitted(CONV, max_input=192, max_output=24), seed=1, rate_per_s=20, requests=80)
LOOP = "for name in names:\n    total = total + name\n"


class EngineNode(TrialNode):
    """The engine itself, given its knobs without a control plane between."""

    def __init__(self, engine: Engine, url: str) -> None:
        self.own, self.url, self.model, self.name = engine, url, "tiny", "t1"
        self.stop = threading.Event()
        self._engine = httpx.Client(base_url=url, timeout=30.0)

    def apply(self, knobs: Mapping[str, Any]) -> None:
        self.own.set_config(parse_config(dict(knobs))).result(120)

    def reset_cache(self) -> bool:
        self.own.reset_cache().result(60)
        return True

    def counted(self, name: str) -> float:
        lines = self._engine.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"vllm:{name}"))


@pytest.fixture(scope="module")
def node() -> Iterator[EngineNode]:
    with serving(BUNDLED) as (engine, url):
        made = EngineNode(engine, url)
        yield made
        made.close()


def _measured(node: EngineNode, own: Sequence[TokenPrompt]) -> Measured:
    spec = StudyCreate(pool="chat", trial_requests=30, objective_q=0.9)
    piece = slice_for_node(TRAFFIC, span_s=20, requests=30)
    corpus = read_tokens(engine_tokenizer(node.url), 8000)
    return Bench(node, spec, piece, piece, corpus, own=own).measure(DRAFTING)


def test_what_is_accepted_and_what_repeats_is_that_of_the_text(node: EngineNode) -> None:
    tokenize = engine_tokenizer(node.url)
    looping = [TokenPrompt(tokenize(LOOP * 12 + f"# {place}")) for place in range(40)]
    apart = [TokenPrompt(tokenize(f"{place}{place * 7919}") + tokenize("".join(map(chr, range(40 + place, 110)))))
             for place in range(40)]  # fmt: skip
    told = {}
    for name, own in (("looping", looping), ("apart", apart)):
        before, drafted = node.counted("prefix_cache_hits"), node.counted("spec_decode_num_draft_tokens")
        measured = _measured(node, own)
        assert measured.measurement is not None and not measured.error
        found = measured.measurement
        assert (found.requests, found.errors, found.lead_in) == (27, 0, 7)
        assert found.drafted and found.accepted is not None
        assert 0 < found.drafted <= node.counted("spec_decode_num_draft_tokens") - drafted
        told[name] = (found.acceptance, node.counted("prefix_cache_hits") - before)
    (accepted, hits), (accepted_apart, hits_apart) = told["looping"], told["apart"]
    assert accepted is not None and accepted_apart is not None and abs(accepted - accepted_apart) > 0.02, told
    assert hits > 2 * hits_apart, told
