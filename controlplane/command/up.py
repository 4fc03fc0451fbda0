"""`tailwright up`: control plane, dashboard and tuner worker on one address."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, field_validator

from controlplane.app.settings import ServiceSettings
from controlplane.contract.engine_address import networks_of
from controlplane.contract.errors import BadSettings, TailwrightError
from controlplane.contract.trace_url import checked
from controlplane.serving.tls import check_exposed
from controlplane.terminal import extras
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import die_with_parent, leave, one_thread_each
from controlplane.terminal.closed_memory import close_memory
from controlplane.terminal.service_connection import fail
from controlplane.terminal.setting_values import Pairs, words_of
from controlplane.terminal.settings_options import with_settings
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

    def __init__(self, url: str, token_file: Path, engine_allow: Sequence[str], variables: Mapping[str, str]) -> None:
        """`variables`: what it is told by its environment, which no other user of the machine reads."""
        super().__init__(name="tuner-worker", daemon=True)
        self._command = [sys.executable, "-m", "controlplane.command.main", "tune"]
        self._command += ["--server", url, "--token-file", str(token_file.absolute())]
        self._command += ["--engine-allow", ",".join(engine_allow)] if engine_allow else []
        self._variables = variables
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while not self._over.is_set():
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**self._variables, **one_thread_each()},
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
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


class UpSettings(ServiceSettings):
    """What `tailwright up` is started with: the service's settings, and what runs beside it."""

    port: int = Field(default=7300, ge=1, le=65535, description="Port to listen on.")
    tuner: bool = Field(default=True, description="Run a tuner worker beside the service.")
    engine_allow: Annotated[tuple[str, ...], BeforeValidator(words_of)] = Field(
        default=(),
        description="Networks that the tuner worker may call engines in, with commas between, such as "
        "10.0.0.0/8; default: any but a cloud's metadata.",
    )
    evaluations: Pairs = Field(
        default={},
        description="A command of the tuner worker that scores what the engine at $TAILWRIGHT_EVALUATION_URL says, for "
        "studies that name it; repeatable.",
    )
    evaluation_timeout_s: float = Field(default=1800, ge=1, description="Seconds that one evaluation may take.")
    dashboard: bool = Field(default=True, description="Serve the dashboard at /.")
    memory_dumps: bool = Field(
        default=False,
        description="Let the service's user read its memory, where keys are: by a debugger or profiler, or in a core "
        "dump.",
    )
    trace_url: str | None = Field(
        default=None,
        description="Where a request's trace is shown, such as https://tempo.example/trace/{trace_id}; links on the "
        "dashboard's pages of requests.",
    )

    @field_validator("engine_allow")
    @classmethod
    def _are_engines_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            networks_of(value)
        except BadSettings as error:
            raise ValueError(error.message.removeprefix("engine_allow: ")) from error
        return value

    @property
    def keeps_worker(self) -> bool:
        return self.tuner

    @field_validator("trace_url")
    @classmethod
    def _leads_to_a_trace(cls, value: str | None) -> str | None:
        return None if value is None else checked(value)


def _tuner_variables(settings: UpSettings) -> dict[str, str]:
    """Optuna's storage beside the service's database, unless the environment names another; and the evaluations."""
    file = settings.data_dir.resolve() / "optuna.db"
    told = {"TAILWRIGHT_TUNER_STORAGE": settings.database_url or f"sqlite:///{file}"}
    told |= {"TAILWRIGHT_INSECURE_STORES": "1"} if settings.insecure_stores else {}
    if settings.evaluations:
        told["TAILWRIGHT_TUNER_EVALUATIONS"] = json.dumps(settings.evaluations)
    return told | {"TAILWRIGHT_TUNER_EVALUATION_TIMEOUT_S": f"{settings.evaluation_timeout_s:g}"}


app = subcommand()


@app.command()
@with_settings("TAILWRIGHT_")
def up(settings: UpSettings) -> None:
    """Run the control plane. The first start writes admin-token, enrolment-token ... into --data-dir (mode 600)."""
    parts = [name for name, wanted in (("web", settings.dashboard), ("tuner", settings.tuner)) if wanted]
    extras.need("up", "server", *parts)
    if not settings.memory_dumps:
        close_memory()
    with extras.loading():
        from controlplane.app.serve import run
        from controlplane.app.service import Service
        from controlplane.command.ready.say_ready import say_ready

    def mount(app: "FastAPI") -> None:
        served.append(app)
        if settings.dashboard:
            _mount_dashboard(app, settings.own_url, settings.trace_url)
        if settings.tuner:  # Not before: by now the application has written the worker's token.
            token_file, variables = settings.data_dir / "tuner-token", _tuner_variables(settings)
            workers.append(Worker(settings.own_url, token_file, settings.engine_allow, variables))
            workers[-1].start()

    def ready() -> None:
        say_ready(Service.of(served[0]), dashboard=settings.dashboard)

    served: list[FastAPI] = []
    workers: list[Worker] = []
    try:
        check_exposed(settings.host, settings.tls, settings.insecure_http)
        status = run(settings, mount, ready)
    except BadSettings as error:
        fail(error.message)
    except TailwrightError as error:
        fail(error.message, 1)
    finally:
        for worker in workers:
            worker.stop()
    leave(status)


def _mount_dashboard(app: "FastAPI", own_url: str, trace_url: str | None) -> None:
    """With what the API does not offer: counters of refusals and faults, and many sessions looked up at once."""
    from prometheus_client import Counter

    from controlplane.app.service import Service
    from controlplane.auth import guard
    from controlplane.serving.limits import Refused

    service = Service.of(app)
    broken = Counter(
        "tailwright_dashboard_part_failures",
        "Times that an error of the dashboard's own kept a part of a page from being drawn, by page and part.",
        ["part"],
        registry=service.telemetry.meters.registry,
    )
    extras.load(DASHBOARD).mount(
        app,
        own_url,
        count_forged=partial(service.door.refuse, Refused.CROSS_SITE),
        voucher=service.voucher,
        trace_url=trace_url,
        count_broken=lambda part: broken.labels(part).inc(),
        tell_read=partial(guard.read_on_page, service),
        tell_refused=service.turned_away.tell,
        scopes_of=partial(guard.scopes_of, service),
    )
