"""`tailwright quantiles`: the API's figures, in one set of units, by label and by step."""

import re

from tests.controlplane.command.nouns.plane import Plane


def test_quantiles_of_a_pool_and_of_each_node(plane: Plane) -> None:
    said = plane.run("quantiles", "ttft", "--where", "pool=chat").stdout.splitlines()
    assert said[0].split() == ["of", "time", "p50", "p95", "p99", "values"]
    assert re.fullmatch(r"ttft +- +2\d\d ms +2\d\d ms +2\d\d ms +6", said[1])
    nodes = plane.run("quantiles", "ttft", "--by", "node", "--q", "0.5").stdout.splitlines()
    assert [line.split()[0] for line in nodes[1:]] == ["node=a", "node=b"]
    steps = plane.run("quantiles", "e2e", "--step", "10s").stdout.splitlines()
    assert re.search(r"\d\d:\d\d:\d0Z", steps[1])


def test_the_api_answers_a_program(plane: Plane) -> None:
    end = "2026-01-31T12:00:00Z"
    told = plane.json("quantiles", "ttft", "--end", end, "--window", "1h")
    assert told == plane.get("quantiles", metric="ttft", q="0.5,0.95,0.99", end=end, window="1h")
    assert told["series"] == []
    assert "no value of ttft from 2026-01-31 11:00:00Z" in plane.run("quantiles", "--end", end, "--window", "1h").stderr
    several = plane.json("quantiles", "ttft", "--where", "node=a", "--where", "node=b")
    assert several["series"][0]["count"] == 6


def test_what_is_asked_wrongly_is_refused(plane: Plane) -> None:
    assert "did you mean 'node'" in plane.run("quantiles", "--where", "nod=a", status=2).stderr
    assert "--q: wants numbers" in plane.run("quantiles", "--q", "p99", status=2).stderr
    assert "start: 'noon' is not a time" in plane.run("quantiles", "--start", "noon", status=2).stderr
    assert "400" in plane.run("quantiles", "nonsense", status=1).stderr
