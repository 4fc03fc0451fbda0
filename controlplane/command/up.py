"""`trimtab up`: control plane, dashboard and tuner worker on one address."""

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.command import extras
from controlplane.command.checkout import ROOT
from controlplane.command.child import die_with_parent, one_thread_each
from controlplane.command.connection import fail
from controlplane.contract.errors import TrimtabError

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

RESTART_AFTER_S = 5.0


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
        self.join(10)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


def up(
    data_dir: Annotated[
        Path, typer.Option(envvar="TRIMTAB_DATA_DIR", help="Where the database and the token files are kept.")
    ] = Path("trimtab-data"),
    host: Annotated[str, typer.Option(envvar="TRIMTAB_HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="TRIMTAB_PORT", help="Port to listen on.", min=1, max=65535)] = 7300,
    database_url: Annotated[
        str | None,
        typer.Option(envvar="TRIMTAB_DATABASE_URL", help="SQLAlchemy URL, e.g. postgresql+psycopg://...; else SQLite."),
    ] = None,
    retention_hours: Annotated[float, typer.Option(help="How long telemetry is kept.", min=0.1)] = 720,
    external_url: Annotated[
        str | None, typer.Option(envvar="TRIMTAB_EXTERNAL_URL", help="Where people reach the dashboard; for links.")
    ] = None,
    log_level: Annotated[str, typer.Option(envvar="TRIMTAB_LOG_LEVEL", help="debug, info, warning or error.")] = "info",
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
            import web.dashboard

            web.dashboard.mount(app, url)

    try:
        settings = load_settings(
            data_dir=data_dir,
            host=host,
            port=port,
            database_url=database_url,
            retention_s=retention_hours * 3600,
            external_url=external_url,
            log_level=log_level,
        )
    except TrimtabError as error:
        fail(error.message)
    worker = Worker(url, data_dir / "tuner-token") if tuner else None
    if worker is not None:
        worker.start()
    try:
        status = run(settings, mount)
    except TrimtabError as error:
        fail(error.message, 1)
    finally:
        if worker is not None:
            worker.stop()
    raise typer.Exit(status)
