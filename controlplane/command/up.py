"""`tailwright up`: control plane, dashboard and tuner worker on one address."""

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.contract.errors import TailwrightError
from controlplane.contract.retention_defaults import DAY_S, HOUR_S, LEVELS_S, LONGEST_S
from controlplane.terminal import extras
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import die_with_parent, leave, one_thread_each
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

DASHBOARD = "web.dashboard"
"""Mounts itself on the service where it is wanted. By name: the control plane knows nothing of it."""
RESTART_AFTER_S = 5.0
WORKER_STOP_S = 1.0
"""A trial that is cut off is measured again: its lease ends."""


class Worker(threading.Thread):
    """Keeps one tuner worker process running beside the service; one that dies is started again, and that is logged."""

    def __init__(self, url: str, token_file: Path) -> None:
        super().__init__(name="tuner-worker", daemon=True)
        self._command = [sys.executable, "-m", "controlplane.command.main", "tune"]
        self._command += ["--server", url, "--token-file", str(token_file.absolute())]
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while not self._over.is_set():
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=one_thread_each(), stdin=subprocess.DEVNULL, preexec_fn=die_with_parent
            )
            status = self._process.wait()
            if not self._over.is_set():
                log.warning("the tuner worker ended with status %s; starting it again", status)
                self._over.wait(RESTART_AFTER_S)

    def stop(self) -> None:
        self._over.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self.join(WORKER_STOP_S)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


app = subcommand()


@app.command()
def up(
    data_dir: Annotated[
        Path, typer.Option(envvar="TAILWRIGHT_DATA_DIR", help="Where the database and the token files are kept.")
    ] = Path("tailwright-data"),
    host: Annotated[str, typer.Option(envvar="TAILWRIGHT_HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="TAILWRIGHT_PORT", help="Port to listen on.", min=1, max=65535)] = 7300,
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="TAILWRIGHT_DATABASE_URL", help="SQLAlchemy URL, e.g. postgresql+psycopg://...; else SQLite."
        ),
    ] = None,
    clickhouse_url: Annotated[
        str | None,
        typer.Option(
            envvar="TAILWRIGHT_CLICKHOUSE_URL",
            help="http(s)://USER:PASSWORD@HOST:8123/DATABASE to keep telemetry's frames in; else the database.",
        ),
    ] = None,
    retention_hours: Annotated[float, typer.Option(help="No telemetry is kept longer than this.", min=0.1)] = (
        LONGEST_S / HOUR_S
    ),
    retention_5s_hours: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_RETENTION_5S_HOURS", help="How long windows of 5 s are kept.")
    ] = LEVELS_S[5] / HOUR_S,
    retention_10s_hours: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_RETENTION_10S_HOURS", help="How long windows of 10 s are kept.")
    ] = LEVELS_S[10] / HOUR_S,
    retention_1m_days: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_RETENTION_1M_DAYS", help="How long windows of a minute are kept.")
    ] = LEVELS_S[60] / DAY_S,
    retention_5m_days: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_RETENTION_5M_DAYS", help="How long windows of 5 minutes are kept.")
    ] = LEVELS_S[300] / DAY_S,
    retention_1h_days: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_RETENTION_1H_DAYS", help="How long windows of an hour are kept.")
    ] = LEVELS_S[3600] / DAY_S,
    telemetry_max_bytes: Annotated[
        int | None,
        typer.Option(
            envvar="TAILWRIGHT_TELEMETRY_MAX_BYTES", help="Beyond it the oldest of the finest windows go first."
        ),
    ] = None,
    external_url: Annotated[
        str | None, typer.Option(envvar="TAILWRIGHT_EXTERNAL_URL", help="Where people reach the dashboard; for links.")
    ] = None,
    log_level: Annotated[
        str, typer.Option(envvar="TAILWRIGHT_LOG_LEVEL", help="debug, info, warning or error.")
    ] = "info",
    export_otlp_url: Annotated[
        str | None,
        typer.Option(envvar="TAILWRIGHT_EXPORT_OTLP_URL", help="OTLP/HTTP collector that gets finished intervals."),
    ] = None,
    export_otlp_header: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for it; repeat for more. Or TAILWRIGHT_EXPORT_OTLP_HEADERS, JSON."),
    ] = None,
    export_otlp_scope: Annotated[
        str, typer.Option(envvar="TAILWRIGHT_EXPORT_OTLP_SCOPE", help="Series to send: node, fleet, or both.")
    ] = "node",
    export_otlp_interval_s: Annotated[
        int, typer.Option(envvar="TAILWRIGHT_EXPORT_OTLP_INTERVAL_S", help="Seconds of telemetry in one point.")
    ] = 60,
    export_remote_write_url: Annotated[
        str | None,
        typer.Option(envvar="TAILWRIGHT_EXPORT_REMOTE_WRITE_URL", help="Prometheus remote-write URL for fleet gauges."),
    ] = None,
    export_remote_write_header: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for it; repeat for more. Or TAILWRIGHT_EXPORT_REMOTE_WRITE_HEADERS, JSON."),
    ] = None,
    export_remote_write_interval_s: Annotated[
        int, typer.Option(envvar="TAILWRIGHT_EXPORT_REMOTE_WRITE_INTERVAL_S", help="Seconds between samples.")
    ] = 15,
    export_delay_s: Annotated[
        float, typer.Option(envvar="TAILWRIGHT_EXPORT_DELAY_S", help="How long an interval waits for late reports.")
    ] = 20,
    tuner: Annotated[bool, typer.Option(help="Run a tuner worker beside the service.")] = True,
    dashboard: Annotated[bool, typer.Option(help="Serve the dashboard at /.")] = True,
) -> None:
    """Run the control plane. The first start writes admin-token, enrolment-token ... into --data-dir (mode 600)."""
    extras.need("up", "server", *(["web"] if dashboard else []), *(["tuner"] if tuner else []))
    from controlplane.app.serve import run
    from controlplane.app.settings import load_settings

    url = f"http://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}"

    def mount(app: "FastAPI") -> None:
        if dashboard:
            extras.load(DASHBOARD).mount(app, url)

    try:
        settings = load_settings(
            data_dir=data_dir,
            host=host,
            port=port,
            database_url=database_url,
            clickhouse_url=clickhouse_url,
            retention_s=retention_hours * 3600,
            retention_5s_hours=retention_5s_hours,
            retention_10s_hours=retention_10s_hours,
            retention_1m_days=retention_1m_days,
            retention_5m_days=retention_5m_days,
            retention_1h_days=retention_1h_days,
            telemetry_max_bytes=telemetry_max_bytes,
            external_url=external_url,
            log_level=log_level,
            export_otlp_url=export_otlp_url,
            export_otlp_scope=export_otlp_scope,
            export_otlp_interval_s=export_otlp_interval_s,
            export_remote_write_url=export_remote_write_url,
            export_remote_write_interval_s=export_remote_write_interval_s,
            export_delay_s=export_delay_s,
            **_headers("export_otlp_header", export_otlp_header),
            **_headers("export_remote_write_header", export_remote_write_header),
        )
    except TailwrightError as error:
        fail(error.message)
    worker = Worker(url, data_dir / "tuner-token") if tuner else None
    if worker is not None:
        worker.start()
    try:
        status = run(settings, mount)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        if worker is not None:
            worker.stop()
    leave(status)


def _headers(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """The setting that an option of headers means; none when it was not given, so that the environment's counts."""
    if not pairs:
        return {}
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            fail(f"--{option.replace('_', '-')}: wants NAME=VALUE")
        found[name.strip()] = value.strip()
    return {f"{option}s": found}
