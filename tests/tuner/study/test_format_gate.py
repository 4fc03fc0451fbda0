"""The quality gate at a real engine: the bundled model, quantized while it serves."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from agents.engine.core.engine import Engine
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import Unavailable
from controlplane.contract.knobs import EngineConfig, parse_config
from tests.agents.engine.serving import serving
from tuner.search.logprob_drop import DROP
from tuner.search.quality_gate import TOP1
from tuner.study import format_gate
from tuner.study.format_gate import FormatGate, GateWord
from tuner.study.trial_node import TrialNode
from tuner.workload.corpus import engine_tokenizer, read_tokens

pytestmark = pytest.mark.slow

BUNDLED = Path(__file__).resolve().parents[3] / "agents/models/tailwright-py-5m"
PLAIN = EngineConfig().knobs()
INT8 = PLAIN | {"quantization": "int8"}
PASSAGES = 24


class Node:
    """The engine itself, given its knobs without a control plane between."""

    name, model, gives_token_ids = "t1", "tiny", False

    def __init__(self, engine: Engine, url: str) -> None:
        self.engine, self.url = engine, url
        self.applied: list[str] = []

    def apply(self, knobs: Mapping[str, Any]) -> None:
        self.applied.append(str(knobs["quantization"]))
        self.engine.set_config(parse_config(dict(knobs))).result(120)

    def reset_cache(self) -> bool:
        self.engine.reset_cache().result(60)
        return True


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with serving(BUNDLED) as (engine, url):
        yield Node(engine, url)


@pytest.fixture(scope="module")
def held_out(node: Node) -> list[int]:
    return read_tokens(engine_tokenizer(node.url), PASSAGES * 96, held_out=True)[: PASSAGES * 96]


def _gate(node: Node, held_out: list[int], **limits: float) -> FormatGate:
    spec = StudyCreate.model_validate({"pool": "p", "least_agreement": 0.5, **limits})
    node.applied.clear()
    return FormatGate(cast(TrialNode, node), spec, held_out)


def _echoed(node: Node, passage: list[int]) -> float:
    """The same by another way of the engine's API: OpenAI's `echo`."""
    body = {"model": "tiny", "prompt": passage, "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = httpx.post(f"{node.url}/v1/completions", json=body, timeout=60, trust_env=False).raise_for_status()
    told = answer.json()["choices"][0]["logprobs"]["token_logprobs"]
    return math.fsum(told[1:]) / len(told[1:])


def test_what_is_hardly_less_likely_passes_with_its_bounds(node: Node, held_out: list[int]) -> None:
    gate = _gate(node, held_out)
    word = gate.apply(INT8, is_first=True)
    asked_s = gate.asked_s
    assert word.refused == "" and word.excess[TOP1] < 0 and word.excess[DROP] < 0
    assert node.applied == ["none", "int8"], "the unquantized model is asked first"
    assert word.told[f"{DROP}_low"] <= word.told[DROP] <= word.told[f"{DROP}_high"] < 0.05
    asked = int(word.told["passages"])
    passages = gate._passages[:asked]
    quantized = [_echoed(node, passage) for passage in passages]
    assert gate.apply(INT8, is_first=False) is word and len(node.applied) == 3, "a format is asked once"
    assert gate.asked_s == asked_s > 0
    node.apply(PLAIN)
    plain = [_echoed(node, passage) for passage in passages]
    drop = math.fsum(a - b for a, b in zip(plain, quantized, strict=True)) / asked
    assert word.told[DROP] == pytest.approx(drop, abs=2e-3)


def test_what_is_permitted_hardly_anything_is_refused_with_its_figures(node: Node, held_out: list[int]) -> None:
    word = _gate(node, held_out, most_logprob_drop=1e-9).apply(INT8, is_first=True)
    assert word.excess[DROP] > 0 and word.excess[TOP1] < 0
    assert word.refused.startswith("not replayed: the log-probability of held-out text drops by ")
    assert word.refused.endswith("and 1e-09 is permitted")


def test_what_says_other_tokens_is_not_asked_further(node: Node, held_out: list[int]) -> None:
    word = _gate(node, held_out, least_agreement=0.999).apply(INT8, is_first=True)
    assert word.excess.keys() == {TOP1} and word.excess[TOP1] > 0 and DROP not in word.told
    assert "next tokens are those of the unquantized model" in word.refused and "99.9 % are wanted" in word.refused


def test_zero_asks_for_none(node: Node, held_out: list[int]) -> None:
    word = _gate(node, held_out, most_logprob_drop=0).apply(INT8, is_first=True)
    assert word.excess.keys() == {TOP1} and word.refused == ""


def test_an_unquantized_trial_goes_on_where_the_engine_gives_none(
    node: Node, held_out: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> list[float]:
        raise Unavailable("no log-probabilities")

    monkeypatch.setattr(format_gate.logprob_drop, "passage_logprobs", none)
    gate = _gate(node, held_out)
    assert gate.apply(PLAIN, is_first=False) == GateWord()
    with pytest.raises(Unavailable, match="no log-probabilities"):
        gate.apply(INT8, is_first=False)
    assert _gate(node, []).apply(INT8, is_first=False) == GateWord(), "without held-out text everything passes"
