"""A running server: does it answer, what does it tell, and how was it started."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from agents.backends.vllm.doctor import listeners
from agents.host.listener import port_of
from agents.host.process import tree
from controlplane.client.named_proxy import authorities
from controlplane.terminal.doctor_finding import Finding

TIMEOUT_S = 10.0
PLUGIN_MODULE = "tailwright_vllm."
SCHEDULER = "--scheduler-cls tailwright_vllm.scheduler.live_scheduler"
PRELOADS = {"libtcmalloc": "tcmalloc, for memory", "libiomp": "Intel OpenMP, for drafts and many threads"}
"""What vLLM recommends to preload on a CPU (its CPU guide, "set LD_PRELOAD")."""
DRIVERS = ("libcuda.so", "libamdhip64.so", "libze_loader.so")


@dataclass(frozen=True)
class Server:
    """What was asked of it. None: it did not tell."""

    url: str
    healthy: str  # Why not; empty when it is.
    version: str | None = None
    models: tuple[str, ...] = ()
    metrics: str | None = None
    info: dict[str, Any] | None = None  # `vllm_config` of GET /server_info, which only development mode has.
    pid: int | None = None  # Of this machine.

    @property
    def reached(self) -> bool:
        return self.version is not None or bool(self.models) or not self.healthy


def ask(url: str, transport: httpx.BaseTransport | None = None, tls: ssl.SSLContext | None = None) -> Server:
    """Ask a server all that is of interest. Never raises for what it answers, or if it does not.

    `tls`: whom to trust; None: the public authorities.
    """
    verify = tls or authorities(url)
    with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False, transport=transport, verify=verify) as http:
        healthy = _health(http)
        told = _json(http, "/version")
        models = (_json(http, "/v1/models") or {}).get("data", [])
        metrics = _get(http, "/metrics")
        info = (_json(http, "/server_info?config_format=json") or {}).get("vllm_config")
    return Server(
        url=url,
        healthy=healthy,
        version=str(told["version"]) if told and "version" in told else None,
        models=tuple(str(model.get("id")) for model in models),
        metrics=metrics.text if metrics is not None and metrics.is_success else None,
        info=info if isinstance(info, dict) else None,
        pid=_listener(url),
    )


def findings(server: Server, folder: Path | None) -> Iterator[Finding]:
    """`folder` is the one that the agent is to share with it."""
    yield Finding("server", not server.healthy, f"{server.url} {server.healthy or 'is healthy'}", _start(server.url))
    if not server.reached:
        return
    yield Finding(
        "served model", bool(server.models), ", ".join(server.models) or "GET /v1/models names none", "look at its log"
    )
    yield Finding("server's version", server.version is not None, server.version or "GET /version does not say", "")
    yield _metrics(server)
    yield Finding(
        "development mode",
        server.info is not None,
        "on"
        if server.info is not None
        else "off: the whole configuration cannot be read, nor the prefix cache emptied",
        "VLLM_SERVER_DEV_MODE=1 on a trial node, which nobody else can reach: it also opens ways to stop the server",
        needed=False,
    )
    if server.info is not None:
        yield _scheduler_class(server.info)
    if server.pid is not None:
        yield from _process(server, server.pid, folder)


def _health(http: httpx.Client) -> str:
    try:
        answer = http.get("/health")
    except httpx.HTTPError as error:
        return f"does not answer: {str(error) or type(error).__name__}"
    return "" if answer.status_code == 200 else f"answers GET /health with {answer.status_code}"


def _get(http: httpx.Client, path: str) -> httpx.Response | None:
    try:
        return http.get(path)
    except httpx.HTTPError:
        return None


def _json(http: httpx.Client, path: str) -> dict[str, Any] | None:
    answer = _get(http, path)
    try:
        body = answer.json() if answer is not None and answer.is_success else None
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _listener(url: str) -> int | None:
    port = port_of(url)
    return None if port is None else listeners.listener(port)


def _start(url: str) -> str:
    port = urlsplit(url).port or 80
    if (pid := _listener(url)) is not None:
        return f"port {port} is held by process {pid}: {_short(listeners.command_line(pid))}; look at its log"
    return f"nobody listens on port {port} here: start vLLM, or give another --url"


def _metrics(server: Server) -> Finding:
    from agents.backends.vllm.measures import vllm_metric_names
    from agents.backends.vllm.measures.scrape_reading import parse

    if server.metrics is None:
        return Finding(
            "metrics", False, "GET /metrics does not answer", "is this vLLM? start it with metrics", needed=False
        )
    try:
        reading = parse(server.metrics, 0.0)
    except ValueError as error:
        return Finding("metrics", False, f"GET /metrics cannot be read: {error}", "is this vLLM?", needed=False)
    samples = {series.sample for series in reading.totals}
    families = set(server.metrics.replace("{", " ").split())
    missing = [
        short
        for short, candidates in vllm_metric_names.HISTOGRAMS.items()
        if not any(f"{name}_bucket" in samples or name in families for name in candidates)
    ]
    old = [
        name
        for candidates in vllm_metric_names.HISTOGRAMS.values()
        for name in candidates[1:]
        if f"{name}_bucket" in samples and f"{candidates[0]}_bucket" not in samples
    ]
    told = f"{len(vllm_metric_names.HISTOGRAMS) - len(missing)} of {len(vllm_metric_names.HISTOGRAMS)} latencies"
    told += f", without {', '.join(missing)}" if missing else ""
    told += f", by old names ({', '.join(old)})" if old else ", by vLLM's present names"
    return Finding("metrics", not missing, told, "those can only be seen through the plugin", needed=False)


def _scheduler_class(info: dict[str, Any]) -> Finding:
    told = (info.get("scheduler_config") or {}).get("scheduler_cls")
    ours = told is not None and PLUGIN_MODULE in str(told)
    return Finding("scheduler", ours, str(told or "vLLM's own: no live limits"), f"start vLLM with {SCHEDULER}")


def _process(server: Server, pid: int, folder: Path | None) -> Iterator[Finding]:
    given = listeners.environment(pid)
    if given is not None:
        shared = given.get("TAILWRIGHT_VLLM_DIR")
        same = shared is not None and (folder is None or Path(shared).resolve() == folder.resolve())
        mend = f"start vLLM with TAILWRIGHT_VLLM_DIR={folder or 'a folder of its own'}"
        yield Finding("TAILWRIGHT_VLLM_DIR", same, shared or "not set: the plugin is idle", mend)
    loaded = listeners.libraries(tree([pid]))
    if loaded is None or not _is_cpu(server, loaded):
        return
    for name, what in PRELOADS.items():
        there = any(library.startswith(name) for library in loaded)
        told = f"{what}: {'loaded' if there else 'not loaded'}"
        yield Finding(name, there, told, "start vLLM with it in LD_PRELOAD", needed=False)


def _is_cpu(server: Server, loaded: set[str]) -> bool:
    """What the server says of its device; else, whether it has loaded a driver of one."""
    device = ((server.info or {}).get("device_config") or {}).get("device_type")
    return device == "cpu" if device else not any(library.startswith(DRIVERS) for library in loaded)


def _short(text: str | None) -> str:
    return "of another user" if text is None else text if len(text) <= 100 else f"{text[:100]} ..."
