"""Wires one agent process: enrol, follow the engine, report, and carry out configurations.

Guarantees: the engine is never waited on and never made to wait; SIGTERM stores what was counted, tries once to send
it, and ends with exit status 0; one process owns a state folder at a time.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import time
from importlib import metadata
from pathlib import Path

import httpx

from agents.agent.collector import Collector
from agents.agent.control.applier import Applier
from agents.agent.control.opamp_client import OpampClient
from agents.agent.control.opamp_messages import NodeSnapshot
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import Outcome, Shipper
from agents.agent.delivery.spool import Spool
from agents.agent.delivery.spool_state import Owner
from agents.agent.reports.phase import phase_s
from agents.agent.reports.report import NodeIdentity
from agents.agent.settings import AgentSettings, parsed_headers
from agents.backends.base import Backend, EngineHealth
from agents.backends.embedded_backend import EmbeddedBackend
from agents.backends.engine_control import EngineControl
from agents.backends.vllm.attached import AttachedVllm
from agents.backends.vllm.managed import ManagedVllm
from agents.backends.vllm.node_file import load_node_file
from agents.host.gpu import Gpus
from agents.host.hardware import hardware_labels
from agents.host.host_sampler import Sampler
from agents.host.neighbours import Neighbours, default_folder
from agents.host.watch import HostWatch
from controlplane.client.named_proxy import authorities, proxy_for
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.errors import BadSettings, TailwrightError
from controlplane.contract.reports import node_labels
from controlplane.contract.reports.engine_event import Hello
from controlplane.serving import service_manager
from controlplane.serving.tls import ClientTls
from controlplane.terminal.setting_values import pairs_in_file

log = logging.getLogger(__name__)

LAST_SEND_S = 5.0
"""How long an ending agent tries to send what it has just stored."""


def agent_version() -> str:
    try:
        return metadata.version("tailwright")
    except metadata.PackageNotFoundError:
        return "0+checkout"


class Agent:
    """One node's agent. `run` ends when `stop` is called or the process gets SIGTERM or SIGINT."""

    def __init__(self, settings: AgentSettings, backend: Backend | None = None) -> None:
        self._settings = settings
        self._tls = ClientTls(settings.client_files) if settings.client_files.any else None
        self._engine_tls = self._tls
        if settings.engine_ca_file is not None:
            self._engine_tls = ClientTls(settings.engine_files, field="engine_ca_file")
        self._backend = backend or _backend_for(settings, self._engine_tls)
        self._stopping = asyncio.Event()
        self._look = asyncio.Event()
        self._started_ns = time.time_ns()
        self._version = agent_version()
        self._hello: Hello | None = None
        self._engine = EngineHealth(False, "not reached yet")
        self._effective: EffectiveConfig | None = None
        self._hardware: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        """End in good order."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until stopped."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.stop)
        settings = self._settings
        lock = _own(settings.state_dir)
        manager = service_manager.ServiceManager()
        manager.tell(service_manager.READY)  # Whoever else has to start first is waited for, not failed at.
        telling = asyncio.create_task(manager.keep_telling())
        spool = Spool(settings.state_dir / "spool", settings.spool_limit_bytes, Owner.here(settings.node))
        own = None if self._tls is None else self._tls.context
        from_file = pairs_in_file(settings.otlp_headers_file, "otlp_headers_file")
        otlp_headers = {**parsed_headers(settings.otlp_headers), **from_file}
        async with (
            httpx.AsyncClient(
                base_url=settings.server_url,
                timeout=10.0,
                verify=own or authorities(settings.server_url),
                trust_env=False,
                proxy=proxy_for(settings.server_url, settings.proxy),
            ) as http,
            httpx.AsyncClient(
                base_url=settings.otlp_url,
                headers=otlp_headers,
                timeout=10.0,
                verify=own or authorities(settings.otlp_url),
                trust_env=False,
                proxy=proxy_for(settings.otlp_url, settings.proxy),
            ) as otlp_http,
        ):
            enrolment = Enrolment(settings, http)
            shipper = Shipper(spool, otlp_http, None) if settings.otlp_url else Shipper(spool, http, enrolment)
            try:
                await self._serve(spool, shipper, http, enrolment)
            finally:
                manager.tell(service_manager.STOPPING)
                await self._backend.close()
                telling.cancel()
                os.close(lock)

    async def _serve(self, spool: Spool, shipper: Shipper, http: httpx.AsyncClient, enrolment: Enrolment) -> None:
        settings = self._settings
        loop = asyncio.get_running_loop()
        wait_s = phase_s(settings.node, settings.report_interval_s, settings.report_window_s)
        enrolling = asyncio.create_task(enrolment.ensure())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({enrolling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not enrolling.done():
            enrolling.cancel()
            return
        applier = Applier(self._backend, settings.state_dir, lambda effective: self._publish(opamp, effective))

        def report_stored() -> None:
            loop.call_later(wait_s, shipper.wake)

        neighbours = Neighbours(
            settings.host_dir or default_folder(), settings.pool if settings.role == "serving" else None
        )
        gpus = Gpus()
        if settings.host_metrics:
            self._hardware = await asyncio.to_thread(hardware_labels, gpus)
        sampler = Sampler(self._backend.url, neighbours, known=self._backend.processes, gpus=gpus)
        host = HostWatch(sampler, settings.report_window_s)
        collector = Collector(
            self._backend,
            spool,
            NodeIdentity(
                settings.node,
                settings.pool,
                settings.node_labels.get(node_labels.REGION, ""),
                trial=settings.role == "trial",
            ),
            enrolling.result(),
            interval_s=settings.report_interval_s,
            grace_s=settings.report_grace_s,
            window_s=settings.report_window_s,
            on_engine=lambda hello: self._engine_seen(opamp, applier, hello),
            on_report=report_stored,
            clock=lambda: shipper.clock.best(time.monotonic()),
            host=host.take,
        )
        opamp = OpampClient(
            settings.server_url,
            http,
            enrolment,
            lambda: self._snapshot(spool, shipper, collector, applier),
            applier.offer,
            on_heard=applier.heard,
            quiet_s=lambda: applier.quiet_s,
            heartbeat_s=settings.heartbeat_s,
            tls=None if self._tls is None else self._tls.context,
            proxy=proxy_for(settings.server_url, settings.proxy),
        )
        log.info("node %s follows the engine at %s", settings.node, self._backend.url)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work)
                for work in (
                    collector.read(),
                    collector.write(),
                    collector.ask(),
                    shipper.run(),
                    applier.run(),
                    opamp.run(),
                    self._watch(opamp),
                    self._backend.run(),
                    *([host.run()] if settings.host_metrics else []),
                )
            ]
            await stopping
            for task in tasks:
                task.cancel()
        neighbours.leave()
        await collector.flush()
        await _send_rest(spool, shipper)

    async def _watch(self, opamp: OpampClient) -> None:
        """Look at the engine every so often, and when it has begun: is it well, and does it run what it was given?"""
        while True:
            self._look.clear()
            for tls in (self._tls, self._engine_tls):
                if tls is not None:
                    await asyncio.to_thread(tls.refresh)
            self._engine = await self._backend.health()
            try:
                self._effective = await self._backend.effective()
            except TailwrightError as error:
                log.debug("the effective configuration cannot be read: %s", error.message)
            opamp.changed()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), self._settings.watch_interval_s)

    def _publish(self, opamp: OpampClient, effective: EffectiveConfig | None) -> None:
        if effective is not None:
            self._effective = effective
        opamp.changed()

    def _engine_seen(self, opamp: OpampClient, applier: Applier, hello: Hello) -> None:
        """It says so itself, vLLM's plugin before its server listens: whether it serves is asked."""
        self._hello = hello
        self._look.set()
        applier.engine_seen(hello["boot"])
        opamp.changed()

    def _snapshot(self, spool: Spool, shipper: Shipper, collector: Collector, applier: Applier) -> NodeSnapshot:
        settings = self._settings
        problems = [collector.disk_error and f"the disk takes no reports: {collector.disk_error}"]
        problems.append(f"{collector.dropped} reports dropped unsent" if collector.dropped else "")
        problems.append(f"{spool.refused} reports refused" if spool.refused else "")
        problems.append(f"{spool.foreign} reports of another node set aside" if spool.foreign else "")
        problems.append(f"{spool.renewed} reports given a new identity" if spool.renewed else "")
        detail = "; ".join(problem for problem in problems if problem)
        depth, hello = spool.depth, self._hello
        return NodeSnapshot(
            node=settings.node,
            pool=settings.pool,
            role=settings.role,
            backend=settings.backend,
            engine_url=self._backend.url,
            version=self._version,
            started_ns=self._started_ns,
            model=hello["model"] if hello else "",
            engine_process=hello.get("process", "") if hello else "",
            engine_version=hello.get("version", "") if hello else "",
            labels={**self._hardware, **settings.node_labels},
            engine=self._engine,
            spool=EngineHealth(not detail, detail),
            spool_status=f"{depth} reports waiting" + (f", {shipper.last_error}" if shipper.last_error else ""),
            unaccounted_share=collector.unaccounted_share,
            effective=self._effective,
            cache_reset=applier.cache_reset,
            outcome=applier.outcome,
        )


def _backend_for(settings: AgentSettings, tls: ClientTls | None) -> Backend:
    context = None if tls is None else tls.context
    if settings.vllm_node_file is not None:
        return ManagedVllm(load_node_file(settings.vllm_node_file), settings.state_dir / "vllm")
    if settings.backend == "vllm":
        return AttachedVllm(
            settings.engine_url,
            settings.vllm_dir,
            scrape_interval_s=settings.vllm_scrape_interval_s,
            otlp_port=settings.vllm_otlp_port,
            state_dir=settings.state_dir / "vllm",
            transport=None if context is None else httpx.AsyncHTTPTransport(verify=context),
        )
    return EmbeddedBackend(settings.engine_url, _control_of(settings), state_dir=settings.state_dir, tls=context)


def _control_of(settings: AgentSettings) -> EngineControl:
    """Where the engine is controlled: as the settings say, else by the socket that it serves beside its port."""
    if settings.engine_control_url is not None:
        assert settings.engine_control_token_file is not None
        return EngineControl.at(settings.engine_control_url, settings.engine_control_token_file)
    if settings.engine_control_socket is not None:
        return EngineControl(settings.engine_control_socket)
    return EngineControl.beside(settings.engine_url)


async def _send_rest(spool: Spool, shipper: Shipper) -> None:
    """One try for each report that waits, as long as they go through."""
    try:
        async with asyncio.timeout(LAST_SEND_S):
            while spool.waiting() and await shipper.send_one() not in (Outcome.AGAIN, Outcome.FAILED):
                pass
    except TimeoutError:
        pass
    if spool.depth:
        log.info("%d reports wait in the spool for the next start", spool.depth)


def _own(state_dir: Path) -> int:
    """Take the state folder for this process; the lock goes with the process, however it ends. Raises BadSettings."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadSettings(f"state_dir: {state_dir} cannot be used: {error}", field="state_dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise BadSettings(f"state_dir: another agent uses {state_dir}; give each its own", field="state_dir") from error
    return lock
