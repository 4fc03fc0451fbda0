"""The servers of this node: the active one, and those that drain after another took their place.

Guarantee: at most one server is active; every server that lives is known here and on disk, also after this agent was
killed and another took over (`adopt`).
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import socket
import time
from pathlib import Path

from agents.backends.base import EngineUnreachable
from agents.backends.vllm.further_knobs import FURTHER
from agents.backends.vllm.live_change import running
from agents.backends.vllm.managed import server_log, server_process
from agents.backends.vllm.managed.command_line import SERVER_HOST, command
from agents.backends.vllm.managed.kept_servers import Good, Records, ServerRecord
from agents.backends.vllm.managed.plugin_presence import has_plugin
from agents.backends.vllm.managed.server import WARM_UP_REQUESTS, Server
from agents.backends.vllm.node_file import NodeFile
from agents.backends.vllm.plugin_link import PluginLink
from controlplane.contract import knobs
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, difference
from controlplane.contract.reports.declared_knobs import completed

log = logging.getLogger(__name__)

STOP_GRACE_S = 30.0
"""How long a server may take to end by itself after SIGTERM."""
_IDENTITY_WITHIN_S = 5.0
_WARM_UP_READ_S = 2.0
_POLL_S = 0.1
_KEPT_LOGS = 6


class StartFailed(Exception):
    """A server did not come up. The message says how, then what its log says."""


class Servers:
    """`retiring`: replaced servers whose requests and events are not at their end yet, oldest first."""

    def __init__(self, node: NodeFile, state_dir: Path, run_dir: Path) -> None:
        self._node = node
        self._run_dir = run_dir
        self._logs = state_dir / "logs"
        self.records = Records(state_dir)
        self.active: Server | None = None
        self.retiring: list[Server] = []
        self.good: Good | None = None

    @property
    def wanted(self) -> tuple[EngineConfig, int]:
        """What has to run when nothing else is asked: the last good configuration, or the node file's."""
        return (self._node.initial_config, 0) if self.good is None else (self.good.config, self.good.revision)

    async def adopt(self, target: str | None) -> None:
        """Find the servers that an earlier agent started; `target` is where the proxy sends requests."""
        self.records.make_folders()
        self._logs.mkdir(mode=0o700, exist_ok=True)
        self.good = self.records.good()
        living: list[Server] = []
        for record in await self._identified():
            if server_process.is_alive(record) and self._is_reached(record):
                living.append(Server(record))
            else:
                await server_process.killed(record)  # Its children may have outlived it.
                self._remove(record)
        last = "" if self.good is None else self.good.active
        by_rank = sorted(living, key=lambda one: (one.url == target, one.record.id == last, one.record.began))
        self.active = by_rank[-1] if by_rank else None
        for server in living:
            if server is self.active:
                log.info("vLLM at %s (pid %s) was running already and is taken over", server.url, server.record.pid)
                server.outdated = self._is_outdated(server.record)
            elif server.record.served:
                self.retiring.append(server)
            else:
                log.warning("vLLM at %s was left by a change that did not end; it is stopped", server.url)
                await self.end(server, 0.0)

    async def start(self, config: EngineConfig, revision: int) -> Server:
        """Start a server for `config`. Raises StartFailed when no process can be made for it."""
        plugin = await has_plugin(self._node)
        config = completed(config, self._node.declared(ChangeClass.RESTART))
        server_id = f"s-{secrets.token_hex(4)}"
        folder = self._run_dir / server_id
        port = self._free_port()
        made = command(self._node, config, port=port, folder=folder, plugin=plugin, inherited=os.environ)
        record = ServerRecord(
            id=server_id,
            port=port,
            folder=folder,
            log=self._logs / f"{server_id}.log",
            knobs=config.knobs(),
            revision=revision,
            plugin=plugin,
            cwd=self._node.folder,
            argv=made.argv,
            declared={name: own.argument for name, own in self._node.knobs.items()},
            began=time.time(),
            ca_file=self._node.server_ca_file,
        )
        try:
            folder.mkdir(mode=0o700)
            if plugin:  # So that its very first step runs what is wanted.
                PluginLink(folder).write_knobs(revision, live_part(config), more=further_part(config))
            self.records.write(record)
            path = self.records.path(server_id)
            record = server_process.spawn(path, record, made.environment, end_with_agent=self._node.stop_with_agent)
        except OSError as error:
            self._remove(record)
            raise StartFailed(f"vLLM cannot be started: {error}") from error
        log.info("vLLM starts at port %d, pid %s: %s", port, record.pid, " ".join(made.argv))
        return Server(record)

    async def come_up(self, server: Server) -> None:
        """Wait until it is healthy and has answered a few requests, whose events are then not told as traffic.

        Raises StartFailed when it ends, or is not healthy in time, or runs something else than it was started for.
        """
        deadline = time.monotonic() + self._node.start_timeout_s
        while not (health := await server.health()).healthy:
            if not server.alive():
                raise StartFailed(f"vLLM ended during its start\n{server.said()}")
            if time.monotonic() >= deadline:
                limit_s = self._node.start_timeout_s
                raise StartFailed(f"vLLM was not healthy within {limit_s:g} s: {health.detail}\n{server.said()}")
            await asyncio.sleep(_POLL_S)
        try:
            await server.warm_up(self._node.served_model_name)
        except EngineUnreachable as error:
            raise StartFailed(f"vLLM came up but {error.message}\n{server.said()}") from error
        if server.record.plugin:
            self._check_runs(server)
            await self._skip_warm_up(server)

    def serves(self, server: Server) -> None:
        """Note on disk that clients' requests go to it from now on. Raises OSError."""
        server.record = server.record.model_copy(update={"served": True})
        self.records.write(server.record)

    def settle(self, config: EngineConfig, revision: int) -> None:
        """`config` is in force on the active server. A disk that takes no note of it is logged, and noted later."""
        active = "" if self.active is None else self.active.record.id
        self.good = Good(revision=revision, knobs=config.knobs(), active=active)
        try:
            self.records.write_good(self.good)
        except OSError as error:
            log.error("the configuration in force cannot be written down: %s", error)

    async def end(self, server: Server, grace_s: float = STOP_GRACE_S) -> None:
        """Stop it, whatever runs on it, and forget it."""
        await server_process.end(server.record, grace_s)
        await server.close()
        self._remove(server.record)

    def kill_now(self, server: Server) -> None:
        """The same at once, for an agent that is being stopped itself; the next start clears away what is left."""
        server_process.kill(server.record)

    def trim_logs(self) -> None:
        for server in (*self.retiring, *([self.active] if self.active else [])):
            try:
                server_log.trim(server.record.log, self._node.log_bytes)
            except OSError as error:
                log.error("the log %s cannot be trimmed: %s", server.record.log, error)

    def _is_reached(self, record: ServerRecord) -> bool:
        """The proxy believes one authority at a time. What serves in clear is reached whichever that is."""
        if record.ca_file in (None, self._node.server_ca_file):
            return True
        log.warning("vLLM at port %d has a certificate of %s, which server_ca_file does not name any more: it ends",
                    record.port, record.ca_file)  # fmt: skip
        return False

    def _is_outdated(self, record: ServerRecord) -> bool:
        """Would it be started with other arguments now?"""
        if self._node.refusal(record.config) is not None:
            return True
        made = command(
            self._node, record.config, port=record.port, folder=record.folder, plugin=record.plugin, inherited={}
        )
        return made.argv != record.argv

    def _free_port(self) -> int:
        for port in self._node.server_ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((SERVER_HOST, port))
                except OSError:
                    continue
                return port
        taken = " and ".join(map(str, self._node.server_ports))
        raise StartFailed(f"both server_ports, {taken}, are taken; choose others, or stop what listens there")

    async def _identified(self) -> list[ServerRecord]:
        """The records; one whose process was just being made is given the time to say which it is."""
        deadline = time.monotonic() + _IDENTITY_WITHIN_S
        while True:
            found = self.records.servers()
            if time.monotonic() >= deadline or all(record.pid is not None for record in found):
                return found
            await asyncio.sleep(_POLL_S)

    def _check_runs(self, server: Server) -> None:
        told = server.told()
        if told is None:
            raise StartFailed(
                "vLLM came up but its plugin does not speak, so its limits are not those wanted; install the plugin "
                f"that fits this vLLM, or set plugin = false in the node file\n{server.said()}"
            )
        differing = difference(server.record.knobs, running(told))
        wrong = [f"{name} {runs!r} instead of {value!r}" for name, (value, runs) in differing.items()]
        if wrong:
            raise StartFailed(f"vLLM came up with {', '.join(wrong)} {told.get('error') or ''}\n{server.said()}")

    async def _skip_warm_up(self, server: Server) -> None:
        """Read the stream up to the end of the last warm-up request."""
        finished, boot, last = 0, "", 0
        with contextlib.suppress(EngineUnreachable, TimeoutError):
            async with asyncio.timeout(_WARM_UP_READ_S), contextlib.aclosing(server.stream(None)) as events:
                async for item in events:
                    if item["kind"] == "hello":
                        boot = item["boot"]
                        continue
                    last = item["seq"]
                    finished += item["kind"] == "finished"
                    if finished == WARM_UP_REQUESTS:
                        break
        server.record = server.record.model_copy(update={"stream_boot": boot, "first_events": last})

    def _remove(self, record: ServerRecord) -> None:
        self.records.forget(record.id)
        shutil.rmtree(record.folder, ignore_errors=True)
        logs = sorted(self._logs.glob("*.log"), key=lambda path: path.stat().st_mtime)
        known = {path.stem for path in self.records.path("x").parent.glob("*.json")}
        for path in [path for path in logs if path.stem not in known][:-_KEPT_LOGS]:
            path.unlink(missing_ok=True)
            server_log.older(path).unlink(missing_ok=True)


def live_part(config: EngineConfig) -> dict[str, object]:
    """The knobs that the plugin's scheduler can move."""
    return {name: value for name, value in config.knobs().items() if name in KNOBS and name != knobs.QUANTIZATION}


def further_part(config: EngineConfig) -> dict[str, object]:
    """Those that it can move on some releases of vLLM; on others it leaves them."""
    return {name: value for name, value in config.knobs().items() if name in FURTHER}
