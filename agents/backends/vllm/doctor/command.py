"""`tailwright doctor vllm`: is this vLLM ready for Tailwright, and what of it can be tuned while it serves."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agents.backends.vllm.doctor import environment, folder, knob_table, node, running_server
from agents.backends.vllm.doctor.installation import (
    VARIABLE,
    Installation,
    InstallationMissing,
    default_executable,
    examine,
)
from agents.backends.vllm.doctor.knob_table import Row
from controlplane.contract.errors import BadSettings, TailwrightError
from controlplane.serving.tls import ClientTls
from controlplane.terminal import extras
from controlplane.terminal.doctor_finding import Finding, document_of, status, tell
from controlplane.terminal.output.printing import print_json
from controlplane.terminal.service_connection import CLIENT_FILES, fail


class Report:
    """What was found, in order, and the knobs as far as they are known."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.rows: list[Row] = []
        self.source = ""

    def knobs(self, rows: list[Row], source: str) -> None:
        """The first source given is the best one."""
        if not self.rows:
            self.rows, self.source = rows, source


def doctor_vllm(
    vllm: Annotated[
        Path | None,
        typer.Option(
            help="Executable of vLLM's environment. Default, if nothing else is named: bin/vllm in .venv-vllm of the "
            f"checkout, or in {VARIABLE}."
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="A running server, such as http://127.0.0.1:8000; for https `tailwright --ca-file` says whom to trust."
        ),
    ] = None,
    dir_: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            envvar="TAILWRIGHT_VLLM_DIR",
            help="The folder that the agent and the plugin share.",
        ),
    ] = None,
    node_file: Annotated[Path | None, typer.Option(help="Node file of a server that the agent is to start.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not import vLLM, which takes half a minute.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", envvar="TAILWRIGHT_DOCTOR_VLLM_JSON", help="For machines.")
    ] = False,
) -> None:
    """Check a vLLM: its environment, a running server, the shared folder, a node file.

    Status 1 when something keeps Tailwright from seeing or tuning it; "less" marks what only lessens what it can do.
    """
    extras.need("doctor vllm", "agent")
    if url is not None and not url.startswith(("http://", "https://")):
        fail(f"--url: wants a URL such as http://127.0.0.1:8000, got {url!r}")
    report = Report()
    installation = None
    if dir_ is not None:
        _look_at_folder(report, dir_, managed=node_file is not None)
    if url is not None:
        _look_at_server(report, url, dir_, managed=node_file is not None)
    if node_file is not None:
        installation = _look_at_node_file(report, node_file, vllm, quick)
    elif vllm is not None or (url is None and dir_ is None):
        installation = _look_at_environment(report, vllm or default_executable(), quick)
    _tell(report, installation, as_json)
    raise typer.Exit(status(report.findings))


def _look_at_folder(report: Report, place: Path, *, managed: bool) -> None:
    report.findings += folder.findings(place)
    if (told := folder.running(place)) is not None:
        report.knobs(knob_table.from_scheduler(told, managed=managed), "the scheduler's own words")


def _look_at_server(report: Report, url: str, place: Path | None, *, managed: bool) -> None:
    files = CLIENT_FILES.get()
    try:
        found = running_server.ask(url.rstrip("/"), tls=ClientTls(files).context if files.any else None)
    except BadSettings as error:
        fail(error.message)
    report.findings += running_server.findings(found, place)
    if found.info is not None:
        scheduler = (found.info.get("scheduler_config") or {}).get("scheduler_cls")
        plugin = running_server.PLUGIN_MODULE in str(scheduler)
        report.knobs(knob_table.from_server(found.info, plugin=plugin, managed=managed), "as the server was started")


def _look_at_environment(report: Report, executable: Path, quick: bool) -> Installation | None:
    try:
        found = examine(executable)
        report.findings += environment.findings(found, thorough=not quick)
    except InstallationMissing as error:
        report.findings.append(Finding("environment", False, error.message))
        return None
    return found


def _look_at_node_file(report: Report, path: Path, vllm: Path | None, quick: bool) -> Installation | None:
    try:
        loaded = node.load(path)
    except TailwrightError as error:
        report.findings.append(Finding("node file", False, error.message))
        return _look_at_environment(report, vllm, quick) if vllm is not None else None
    report.findings += node.findings(path, loaded)
    installation = _look_at_environment(report, vllm or Path(loaded.executable[0]), quick)
    plugin = (
        loaded.plugin if loaded.plugin is not None else installation is not None and installation.plugin is not None
    )
    rows = knob_table.from_node_file(
        loaded.capacity.model_dump(),
        loaded.limits.model_dump(),
        [str(format_) for format_ in loaded.variants],
        loaded.initial_config.knobs(),
        plugin=plugin,
    )
    report.knobs(rows, "as the node file is going to start it")
    return installation


def _tell(report: Report, installation: Installation | None, as_json: bool) -> None:
    if as_json:
        knobs = {"source": report.source, "rows": [row.as_json() for row in report.rows]} if report.rows else None
        print_json({**document_of(report.findings), "knobs": knobs})
        return
    tell(report.findings)
    if report.rows:
        Console().print(knob_table.drawn(report.rows, f"What can be tuned ({report.source})"))
    elif installation is not None:
        typer.echo("     What can be tuned depends on how vLLM is started: name --url, --dir or --node-file.")
