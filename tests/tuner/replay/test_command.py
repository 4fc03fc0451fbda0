"""`tailwright replay`: what a client saw, as a table and for programs."""

import json

from sse_engine import SseEngine
from typer.testing import CliRunner

from controlplane.command.main import app


def test_a_generated_trace_is_replayed_and_measured(engine: SseEngine) -> None:
    arguments = ["replay", "--target", engine.url, "--requests", "5", "--rate", "50", "--max-output", "4"]
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 0, table.output
    lines = table.stdout.splitlines()
    assert lines[0].startswith("5 requests in") and lines[0].endswith("0 failed")
    assert lines[1].split() == ["metric", "p50", "p95", "p99"] and "ms" in lines[2]
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert told["requests"] == 5 and told["failed"] == 0
    assert told["quantiles"]["ttft"]["0.5"] > 0
