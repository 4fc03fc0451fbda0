"""Select to explain: what the page makes of the API's answer, and where each thing that it names leads."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from controlplane.contract.bodies.explanation import ExplainAnswer, ExplainedPart
from controlplane.contract.bodies.pages import Page
from web.explore.box_explained import box_explained, stage_words, stages
from web.frame.rendering import templates
from web.frame.selection import selection_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = START + timedelta(minutes=5)
BOX = f"{START.isoformat()},{END.isoformat()},0.5,2.0"


def part(name: str, outside_s: float, inside_s: float, error_s: float = 0.01) -> dict[str, Any]:
    difference = inside_s - outside_s
    told = {"part": name, "outside_s": outside_s, "inside_s": inside_s, "difference_s": difference}
    return told | {"low_s": difference - error_s, "high_s": difference + error_s}


def factor(name: str, value: str, *, label: bool = True, named: bool = True) -> dict[str, Any]:
    one = {"value": value, "inside": 84, "outside": 24, "share_inside": 0.84, "share_outside": 0.24}
    one |= {"difference": 0.6, "low": 0.51, "high": 0.67, "p_value": 0.001, "named": named}
    told = {"factor": name, "label": label, "score": 0.6, "p_value": 0.001, "named": named, "values": [one]}
    return told | {"sentence": f"{name} {value} it is.", "inside": 100, "outside": 100, "others": 2}


class Explaining:
    """Answers with these factors, and remembers what was asked."""

    def __init__(self, *factors: dict[str, Any], found: int = 100) -> None:
        side = {"found": found, "looked_at": found, "start": START, "end": END}
        told = {"metric": "ttft", "low": 0.5, "high": 2.0, "against": "span", "alpha": 0.05, "log_from": START}
        told |= {"sentence": "100 requests inside.", "inside": side, "outside": side, "factors": factors}
        self._answer = ExplainAnswer.model_validate(told | {"parts": [part("queue", 0.1, 0.9)]})
        self.asked: dict[str, Any] = {}

    def explain(self, **asked: Any) -> ExplainAnswer:
        self.asked = asked
        return self._answer

    def requests(self, **asked: Any) -> Page[Any]:
        return Page(items=[], next=None)


def shown(client: Explaining, **params: str) -> tuple[dict[str, Any], str]:
    selection = selection_of({"box": BOX, **params}, END)
    context = box_explained(client, selection)  # type: ignore[arg-type]
    return context, templates.get_template("parts/box_explained.html").render(selection=selection, **context)


def test_the_box_and_the_filters_are_what_is_asked() -> None:
    client = Explaining(factor("node", "gpu-3"))
    shown(client, metric="queue", pool="chat", against="before")
    wanted = {"metric": "queue", "start": START, "end": END, "low": 0.5, "high": 2.0, "pool": "chat"}
    assert client.asked == wanted | {"against": "before", "role": "serving"}


def test_gaps_between_tokens_are_explained_by_requests_and_that_is_said() -> None:
    client = Explaining()
    _, text = shown(client, metric="itl")
    assert client.asked["metric"] == "tpot" and "Single gaps between tokens are not kept" in text


def test_a_value_filters_the_page_or_the_log_or_nothing() -> None:
    of_bar, of_log, of_none = factor("node", "gpu-3"), factor("cache_class", "miss"), factor("running", "4 to 9")
    context, text = shown(Explaining(of_bar, of_log, of_none), tail="p99")
    addresses = [one.values[0].address for one in context["named"]]
    assert parse_qs(urlsplit(addresses[0]).query) == {"box": [BOX], "tail": ["p99"], "node": ["gpu-3"]}
    log = urlsplit(addresses[1])
    assert log.path == "/requests" and parse_qs(log.query)["cache_class"] == ["miss"]
    assert parse_qs(log.query) | {"min": ["0.5"], "max": ["2"], "metric": ["ttft"]} == parse_qs(log.query)
    assert addresses[2] == ""
    assert "84 % inside, 24 % outside: +60 points (51 to 67)" in text and "2 more values" in text


def test_what_does_not_tell_them_apart_is_folded_and_nothing_is_said_to_stand_out() -> None:
    context, text = shown(Explaining(factor("node", "gpu-3", named=False)))
    assert context["named"] == [] and "Nothing stands out" in text
    assert "1 that do not tell them apart" in text


def test_an_empty_box_does_not_claim_that_nothing_stands_out() -> None:
    assert "Nothing stands out" not in shown(Explaining(found=0))[1]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([part("e2e", 1.0, 3.0), part("queue", 0.1, 0.9)], "Inside, queue took 800 ms longer (790 ms to 810 ms)."),
        ([part("prefill", 0.9, 0.1)], "Inside, prefill took 800 ms shorter (790 ms to 810 ms)."),
        ([part("queue", 0.1, 0.105)], ""),
    ],
)
def test_the_stage_that_differs_most_is_told_with_its_interval(parts: list[dict[str, Any]], words: str) -> None:
    assert stage_words([ExplainedPart.model_validate(one) for one in parts]) == words


def test_the_stages_are_drawn_of_what_both_sides_tell() -> None:
    drawn = stages([ExplainedPart.model_validate(one) for one in (part("queue", 0.1, 0.9), part("ttft", 1.0, 2.0))])
    assert drawn is not None and [stack.row.name for stack in drawn.stacks] == ["outside", "inside"]
    assert [bar.part for bar in drawn.stacks[1].row.bars] == ["queue"]
    assert stages([ExplainedPart.model_validate(part("ttft", 1.0, 2.0))]) is None
