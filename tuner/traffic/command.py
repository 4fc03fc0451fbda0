"""`tailwright traffic`: steady, seeded load on engines, for a first look and for demonstrations.

Guarantee: no more than `--max-in-flight` requests are under way at once; those that were due meanwhile are counted and
told. SIGINT and SIGTERM stop it: no new requests, those in flight get `--drain` seconds to end.
"""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.contract.errors import BadSettings, Unavailable
from controlplane.serving import owned_files
from controlplane.terminal import extras
from controlplane.terminal.service_choice import Choice
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, reaching
from controlplane.terminal.subcommand import subcommand
from tuner.traffic.targets import checked, model_of, models_at, targets_of_pool

if TYPE_CHECKING:
    from tuner.replay.load_generator import Traffic

CORPUS_TOKENS = 60_000
LOOK_AGAIN_S = 0.5

app = subcommand()


@app.command()
@calls_service()
def traffic(
    choice: Choice,
    target: Annotated[
        list[str], typer.Option(help="Base URL of an OpenAI-compatible engine; repeatable.", metavar="URL")
    ] = [],  # noqa: B006 - Typer's own form of a repeatable option.
    pool: Annotated[str | None, typer.Option(help="Instead: the engines of this pool's serving nodes.")] = None,
    rate: Annotated[float, typer.Option(help="Requests a second, on average, over all engines.", min=0.001)] = 2.0,
    shape: Annotated[str, typer.Option(help="Lengths and shared prefixes: chat, rag, code or agents.")] = "chat",
    duration: Annotated[float | None, typer.Option(help="Seconds; without, until Ctrl-C.", min=0.1)] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask for; default: the first that all serve.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="A file of the engines' API key.")] = None,
    max_in_flight: Annotated[
        int, typer.Option(help="Most requests under way at once; what is due beyond is counted.", min=1, max=4096)
    ] = 64,
    max_input: Annotated[int, typer.Option(help="Longest prompt, tokens.", min=16)] = 768,
    max_output: Annotated[int, typer.Option(help="Longest answer, tokens.", min=1)] = 64,
    arrival_cv: Annotated[
        float, typer.Option(help="Variation of the gaps between requests; 1 is Poisson's, more is burstier.", min=0.1)
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests.")] = 0,
    every: Annotated[float, typer.Option(help="Seconds between two lines.", min=0.1)] = 5.0,
    drain: Annotated[float, typer.Option(help="Seconds for requests in flight at the end.", min=0)] = 10.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for an engine to answer at the start.", min=0)] = 0.0,
    control_file: Annotated[
        Path | None, typer.Option(help='JSON that may change while it runs: {"rate": 6.0, "paused": false}.')
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each report as a line of JSON.")] = False,
) -> None:
    """Send steady traffic to engines, and say what becomes of it, until Ctrl-C."""
    extras.need("traffic", "tuner")
    from tuner.replay.load_generator import Traffic
    from tuner.traffic.progress_text import progress_line, summary_lines
    from tuner.traffic.steady_load import Course, run
    from tuner.workload.corpus import engine_tokenizer, read_tokens
    from tuner.workload.generate import SHAPES, fitted

    if shape not in SHAPES:
        fail(f"--shape: one of {', '.join(SHAPES)}, got {shape!r}")
    if bool(target) == (pool is not None):
        fail("give the engines with --target URL, or the pool whose engines they are with --pool")
    try:
        api_key = _api_key(api_key_file)
        urls = checked(target)
        if pool is not None:
            with reaching(choice) as client:
                found = targets_of_pool(client.nodes(), pool, choice.server)
            for line in found.left_out:
                typer.echo(f"left out: {line}", err=True)
            urls = list(found.urls)
        served = _answering(urls, api_key, wait)
        asked = model_of(served, model)
        corpus = read_tokens(engine_tokenizer(next(iter(served)), api_key=api_key), CORPUS_TOKENS)
    except BadSettings as error:
        fail(error.message)
    except Unavailable as error:
        fail(error.message, 1)
    sent = Traffic(
        urls,
        model=asked,
        corpus=corpus,
        shape=replace(fitted(SHAPES[shape], max_input=max_input, max_output=max_output), arrival_cv=arrival_cv),
        rate=rate,
        seed=seed,
        max_in_flight=max_in_flight,
        api_key=api_key,
    )

    def tell() -> None:
        progress = sent.progress()
        typer.echo(json.dumps(progress) if as_json else f"{time.strftime('%H:%M:%S')}  {progress_line(progress)}")

    if not as_json:
        until = "until Ctrl-C" if duration is None else f"for {duration:g} s"
        typer.echo(f"Sending {rate:g} requests/s of {shape} to {asked} at {', '.join(urls)}, {until}.")
    began = time.monotonic()
    asyncio.run(run(sent, Course(every, duration, drain, control_file), tell))
    if as_json:
        typer.echo(json.dumps({**sent.progress(), "stopped": True}))
    else:
        for line in summary_lines(
            sent.progress(over_s=float("inf")), time.monotonic() - began, max_in_flight, sent.recent_errors()
        ):
            typer.echo(line)
    raise typer.Exit(_status(sent))


def _status(sent: "Traffic") -> int:
    """1 when requests failed and none was answered."""
    return 1 if sent.counts["failed"] and not sent.counts["finished"] else 0


def _api_key(file: Path | None) -> str | None:
    """The first key of the file. Raises BadSettings."""
    if file is None:
        return None
    text = owned_files.read(file, "api_key_file", mounted=True)
    if text is None or not text.strip():
        why = "is not there" if text is None else "holds no key"
        raise BadSettings(f"api_key_file: {file} {why}", field="api_key_file")
    return text.split()[0]


def _answering(urls: list[str], api_key: str | None, wait_s: float) -> dict[str, list[str]]:
    """The models of each engine that answers; of the others why not, told once.

    Raises Unavailable when none does within `wait_s`.
    """
    until = time.monotonic() + wait_s
    while True:
        served, problems = {}, []
        for url in urls:
            try:
                served[url] = models_at(url, api_key)
            except Unavailable as error:
                problems.append(error.message)
        if served:
            for problem in problems:
                typer.echo(f"not answering yet, its requests will fail: {problem}", err=True)
            return served
        if time.monotonic() >= until:
            raise Unavailable("no engine answers: " + ("; ".join(problems) or "the pool has none that can be reached"))
        time.sleep(LOOK_AGAIN_S)
