"""The real Prometheus as a child, bound to a core, and its tool that loads history."""

import os
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

import httpx

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.processes import Child, Nursery

_START_S = 120.0
_LOAD_S = 1200.0


def version() -> str:
    """Raises `WorkerFailed` where it is not installed."""
    program = _program("prometheus")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\S+)", told.stdout + told.stderr)
    return found.group(1) if found else "unknown"


class Prometheus:
    """One server on a data folder. `scrape`: the exporter's port, the nodes and the seconds between scrapes."""

    def __init__(
        self, nursery: Nursery, name: str, core: int, data: Path, scrape: tuple[int, int, float] | None = None
    ) -> None:
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.data = data
        config = nursery.folder / f"{name}.yml"
        config.write_text("" if scrape is None else _scrape_config(*scrape), encoding="utf-8")
        command = [
            _program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={HOST}:{self.port}",
            "--query.timeout=10m",
            "--query.max-samples=500000000",
            "--log.level=warn",
        ]
        self._nursery = nursery
        self.child: Child = nursery.start(name, command, {**os.environ, "GOMAXPROCS": "1"})
        os.sched_setaffinity(self.child.pid, {core})
        self.child.wait_healthy(f"{self.url}/-/ready", _START_S)
        self._http = httpx.Client(base_url=self.url, timeout=600.0)

    def query(self, expression: str, at: float) -> list[dict[str, Any]]:
        """An instant query: [{"metric": labels, "value": [time, text]}, ...]."""
        return self._ask("/api/v1/query", query=expression, time=at)

    def query_range(self, expression: str, start: float, end: float, step_s: float) -> list[dict[str, Any]]:
        """[{"metric": labels, "values": [[time, text], ...]}, ...]."""
        return self._ask("/api/v1/query_range", query=expression, start=start, end=end, step=step_s)

    def close(self) -> None:
        self._http.close()
        self._nursery.stop(self.child)

    def _ask(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = self._http.post(path, content=urllib.parse.urlencode(parameters), headers=_FORM).json()
        if answer["status"] != "success":
            raise WorkerFailed(f"Prometheus: {answer.get('error', answer)}")
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def load_openmetrics(text_file: Path, data: Path) -> None:
    """`promtool tsdb create-blocks-from openmetrics`: blocks as Prometheus itself would have compacted them."""
    command = [_program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text_file), str(data)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LOAD_S)
    if told.returncode:
        raise WorkerFailed(f"promtool: {told.stderr.strip()[-500:]}")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _scrape_config(port: int, nodes: int, interval_s: float) -> str:
    targets = ",".join(f"n{node:05}" for node in range(nodes))
    return f"""\
global: {{scrape_interval: {interval_s:g}s, scrape_timeout: {interval_s:g}s}}
scrape_configs:
- job_name: fleet
  static_configs: [{{targets: [{targets}]}}]
  relabel_configs:
  - {{source_labels: [__address__], target_label: instance}}
  - {{source_labels: [__address__], regex: "n(.*)", target_label: __metrics_path__, replacement: "/n/$1/metrics"}}
  - {{target_label: __address__, replacement: "127.0.0.1:{port}"}}
"""


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise WorkerFailed(f"{name} is not installed: deploy/test_packages.sh installs Debian's")
    return found
