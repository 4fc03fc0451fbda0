"""`tailwright advice`: what the API says, in tables; and for programs."""

from dataclasses import replace

import pytest

from controlplane.advice.pool_advice import advice_of
from controlplane.command.pools.advice_command import carried, shift_row, technique_row, tell_mix
from tests.controlplane.advice.advised_pool import BUSY, figures, measured_then
from tests.controlplane.command.nouns.plane import Plane


def test_a_barely_measured_pool_is_told_so(plane: Plane) -> None:
    plane.enrol("gpu-1", "chat")
    said = plane.run("advice", "--pool", "chat").stdout
    assert "Nothing binds: no request" in said and "nothing to advise" in said and "technique" not in said
    document = plane.json("advice", "--pool", "chat", "--window", "1h", "--peak", 3)
    assert (document["pool"], document["state"], document["techniques"]) == ("chat", "idle", [])


def test_what_the_service_refuses_is_one_line(plane: Plane) -> None:
    assert "no pool 'nobody'" in plane.run("advice", "--pool", "nobody", status=1).stderr
    plane.enrol("gpu-1", "chat")
    assert "a week at most" in plane.run("advice", "--pool", "chat", "--window", "9d", status=1).stderr


def test_drifted_traffic_is_told_in_rows_with_its_study(capsys: pytest.CaptureFixture[str]) -> None:
    now = replace(measured_then().mix, prompts=[3 * tokens for tokens in measured_then().mix.prompts])
    told = advice_of(figures(mix=now), 2, measured_then()).mix
    assert told is not None
    tell_mix(told, "http://tw.example")
    said = capsys.readouterr().out
    assert said.startswith(told.says) and f"study: http://tw.example/studies/new?{told.study.split('?')[1]}" in said
    assert shift_row(told.parts[0])[0] == "prompts" and shift_row(told.parts[0])[-1] == "yes"


def test_rows_have_what_was_carried_and_what_proves() -> None:
    answer = advice_of(BUSY, 2)
    assert carried(answer)[0] == ("requests/s", "10", "12", "24")
    assert ("ttft p95", "800 ms", "-", "-") in carried(answer)
    first = technique_row(answer.techniques[0], "http://tw.example")
    page = "http://tw.example/whatif?pool=chat&replicas=3&ask=1"
    assert first == ("Another replica", "77.5 %", "applies", "-", page), "a link to be followed from a terminal"
    assert technique_row(answer.techniques[0], "")[-1] == "/whatif?pool=chat&replicas=3&ask=1", "of a socket"
    unknown = advice_of(figures(seconds={}), 2).techniques[-1]
    assert technique_row(unknown, "")[1] == "not known"
