"""`tailwright export`: a whole file or none, and mistakes named before anything is written."""

import csv
import io
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from controlplane.client import Client
from controlplane.command.main import app
from controlplane.contract.clock import utc_now
from controlplane.terminal.output.whole_file import write_whole
from tests.peers import send, service

runner = CliRunner()


@pytest.mark.slow
def test_series_buckets_and_requests_of_a_running_service(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        send(running, "chat")
        base = ["export", "--server", running.url, "--token", running.token]
        start = ["--start", (utc_now() - timedelta(minutes=1)).isoformat()]
        text = runner.invoke(app, [*base, "ttft", *start, "--by", "node", "--where", "pool=chat", "--q", "0.5"])
        assert text.exit_code == 0, text.output
        rows = list(csv.DictReader(io.StringIO(text.stdout)))
        assert [(row["node"], row["count"]) for row in rows] == [("a", "3"), ("b", "3")]
        file = tmp_path / "ttft.parquet"
        done = runner.invoke(app, [*base, "ttft", *start, "--buckets", "-o", str(file)])
        assert done.exit_code == 0, done.output
        assert sum(pyarrow.parquet.read_table(file)["count"].to_pylist()) == 6
        done = runner.invoke(app, [*base, "--requests", "-o", str(tmp_path / "requests.csv")])
        assert done.exit_code == 0 and (tmp_path / "requests.csv").read_text().startswith("arrival,node,pool")
        wrong = runner.invoke(app, [*base, "ttfx", "-o", str(tmp_path / "none.csv")])
        assert wrong.exit_code == 1 and "did you mean" in wrong.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "requests.csv", "ttft.parquet"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give a metric"),
        (["ttft", "--requests"], "not both"),
        (["ttft", "--where", "nod=a"], "did you mean 'node'"),
        (["ttft", "--where", "node"], "label=value"),
        (["ttft", "--format", "xml"], "xml"),
    ],
)
def test_mistakes_are_named(arguments: list[str], told: str) -> None:
    answer = runner.invoke(app, ["export", "--token", "x", *arguments])
    assert answer.exit_code == 2 and told in answer.output


def test_a_transfer_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"time,count\r\n"
            raise httpx.ReadError("gone")

    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Broken()))
    client = Client("http://there", transport=transport)
    with pytest.raises(httpx.ReadError):
        write_whole(client.export(metric="ttft"), tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_help_says_everything_in_a_narrow_terminal_too() -> None:
    answer = runner.invoke(app, ["export", "--help"], env={"COLUMNS": "60"})
    assert answer.exit_code == 0 and "--buckets" in answer.output
    assert "\N{HORIZONTAL ELLIPSIS}" not in answer.output


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        send(running, "chat")
        command = [sys.executable, "-m", "controlplane.command.main", "export", "--server", running.url]
        command += ["--token", running.token, "ttft", "--buckets"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            told = process.stderr.read()
            assert process.wait(60) == 1
    assert told == b""
