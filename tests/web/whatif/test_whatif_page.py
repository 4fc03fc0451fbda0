"""The page of forecasts: its form says what the API takes, what is wrong is told at its field, and it draws both."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.errors import BadRequest, Overloaded, Unauthenticated
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.whatif import (
    ChangeOver,
    ForecastClass,
    Forecasted,
    GoodRequests,
    Scenario,
    WhatIf,
    WhatIfCreate,
)
from web.frame.rendering import templates
from web.frame.selection import Selection
from web.whatif.whatif_page import USUAL, asked_of, so_far, whole

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EMPTY = dict.fromkeys(
    ("max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens", "quantization"), ""
)
SCENARIO = Scenario(
    knobs={},
    replicas=2,
    requests=9,
    refused=1,
    busy=0.5,
    cached=0.25,
    quantiles={"ttft:0.95": Forecasted(value_s=0.25, low_s=0.2, high_s=0.4)},
)
ANSWER = WhatIf(
    asked=WhatIfCreate(pool="chat"),
    start=NOW,
    end=NOW,
    revision=1,
    forecast_class=ForecastClass.CALIBRATED,
    as_is=SCENARIO,
    changed=SCENARIO,
    measured={"ttft:0.95": 0.24},
    error={"ttft:0.95": 0.04},
    fit={},
    summary="A forecast is no proof.",
)


class Api:
    """What the page asks of the API."""

    def __init__(self, answer: WhatIf | Exception) -> None:
        self.asked: list[WhatIfCreate] = []
        self._answer = answer

    def fleet(self) -> Any:
        return SimpleNamespace(pool=["chat", "chat-trial"], role=[NodeRole.SERVING, NodeRole.TRIAL])

    def studies(self) -> list[Any]:
        return []

    def what_if(self, asked: WhatIfCreate) -> WhatIf:
        self.asked.append(asked)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    what_if_so_far = what_if


def opened(api: Api, **own: str) -> Any:
    return whole(cast(Any, api), Selection(NOW, own=own))


def waited(api: Api, **own: str) -> Any:
    """As a browser without scripts has it."""
    return opened(api, ask="1", wait="1", **own)


def test_the_form_is_what_the_api_takes() -> None:
    said = USUAL | EMPTY | {"load": "2x", "replicas": "3", "model_parallel": "2x", "max_num_seqs": "8", "look": "1h"}
    said |= {"good_ttft": "0.5 s"}
    wanted = WhatIfCreate(
        pool="chat",
        load=2.0,
        replicas=3,
        model_parallel=2,
        knobs={"max_num_seqs": 8},
        window_s=3600,
        good={"ttft": 0.5},
    )
    assert asked_of(said | {"pool": "chat"}) == wanted
    drafts = USUAL | EMPTY | {"pool": "chat", "num_speculative_tokens": "[[4, 3], [16, 1]]"}
    assert asked_of(drafts).knobs == {"num_speculative_tokens": ((4, 3), (16, 1))}, "as its field says"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("load", "much"),
        ("load", "99"),
        ("replicas", "0"),
        ("model_parallel", "1.5"),
        ("look", "soon"),
        ("good_ttft", "soon"),
        ("good_e2e", "0"),
        ("max_num_seqs", "few"),
        ("max_num_seqs", "2.5"),
        ("num_speculative_tokens", "[[4, 3], [2, 1]]"),
        ("num_speculative_tokens", "4: 3"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(name: str, text: str) -> None:
    api = Api(ANSWER)
    context = opened(api, ask="1", **{name: text})
    assert context["problem"].field == name and not api.asked


def test_nothing_is_asked_before_somebody_asks() -> None:
    api = Api(ANSWER)
    context = opened(api)
    assert not api.asked and "answer" not in context and context["pools"] == {"chat": "chat"}


def test_the_page_asks_for_the_forecast_and_does_not_wait_for_it() -> None:
    api = Api(ANSWER)
    context = opened(api, ask="1", load="2")
    assert not api.asked and "answer" not in context
    assert (context["asks"], context["waits"]) == ("?ask=1&load=2&pool=chat", "?ask=1&load=2&pool=chat&wait=1")


def test_another_s_forecast_is_waited_for_and_an_ended_session_is_not() -> None:
    selection = Selection(NOW, filters={"pool": "chat"}, own={"ask": "1"})
    busy = so_far(cast(Any, Api(Overloaded("another forecast is being made", retry_after_s=5.0))), selection)
    assert busy == {"asks": "?ask=1&pool=chat", "first": "another forecast is being made"}
    with pytest.raises(Unauthenticated):
        so_far(cast(Any, Api(Unauthenticated("sign in first"))), selection)


def test_what_the_api_refuses_is_told_at_the_form_s_field() -> None:
    context = waited(Api(BadRequest("knobs.quantization: no", field="knobs.quantization")))
    assert context["problem"].field == "quantization"
    assert waited(Api(BadRequest("window_s: too long", field="window_s")))["problem"].field == "look"


def test_both_scenarios_are_drawn_with_error_and_interval() -> None:
    context = waited(Api(ANSWER))
    drawn = templates.get_template("parts/forecast.html").render(context)
    assert "Forecast, calibrated" in drawn and "200 ms to 400 ms" in drawn and "240 ms" in drawn and "no proof" in drawn
    assert "1 of 10" in drawn and "devices" not in drawn
    over = ANSWER.model_copy(update={"asked": WhatIfCreate(pool="chat", model_parallel=4)})
    drawn = templates.get_template("parts/forecast.html").render(waited(Api(over)))
    assert "each over 4 times as many devices" in drawn


def test_good_requests_and_what_tokens_cost_are_drawn_where_they_are_told() -> None:
    now = SCENARIO.model_copy(update={"node_hours_per_million": 0.25})
    then = now.model_copy(update={"good": GoodRequests(share=0.9, low=0.8, high=1.0, per_s=4.5)})

    def drawn(as_is: Scenario) -> str:
        answer = ANSWER.model_copy(update={"as_is": as_is, "changed": then})
        return templates.get_template("parts/forecast.html").render(waited(Api(answer)))

    assert "Good requests" not in drawn(now) and "0.25, as asked 0.25" in drawn(now)
    shown = drawn(then)
    assert "as asked 90 % (80 % to 100 %): 4.5 a second" in shown


def test_the_change_itself_is_drawn_where_somebody_stops_for_it() -> None:
    told = SCENARIO.quantiles
    change = ChangeOver(
        change_class=ChangeClass.RESTART, seconds=24.0, each_s=12.0, requests=9, unserved=2, quantiles=told
    )

    def drawn(change: ChangeOver | None) -> str:
        answer = ANSWER.model_copy(update={"change": change})
        return templates.get_template("parts/forecast.html").render(waited(Api(answer)))

    shown = drawn(change)
    assert "While it changes" in shown and "restart, 12.0 s a node" in shown and "2 of 9 requests" in shown
    live = ChangeOver(change_class=ChangeClass.LIVE, seconds=0.1, each_s=0.1)
    assert "While it changes" not in drawn(None) + drawn(live)
    alone = change.model_copy(update={"unserved": 9, "quantiles": {}})
    assert "9 of 9 requests come while no node serves" in drawn(alone)
