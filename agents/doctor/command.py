"""`tailwright doctor`: is this installation able to run, and what is missing."""

import os
import platform
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from agents.backends.vllm.doctor.command import doctor_vllm
from controlplane.terminal import checkout, extras
from controlplane.terminal.doctor_finding import Finding, document_of, status, tell
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.subcommand import subcommand

app = subcommand(invoke_without_command=True)
app.command("vllm")(doctor_vllm)


def examine(data_dir: Path, host: str, port: int) -> Iterator[Finding]:
    """Every check of the local installation."""
    version = platform.python_version()
    yield Finding("python", sys.version_info >= (3, 11), version, "Python 3.11 or newer")
    wrong = checkout.foreign_packages()
    yield Finding(
        "packages", not wrong, "from the checkout" if not wrong else ", ".join(wrong), checkout.refusal(wrong)
    )
    for extra in extras.PROBES:
        absent = extras.missing(extra)
        mend = f"pip install -c constraints.txt -e '.[{extra}]'"
        yield Finding(f"extra {extra}", not absent, "installed" if not absent else f"lacks {', '.join(absent)}", mend)
    model = checkout.ROOT / "agents/models/tailwright-py-5m/model.safetensors"
    yield Finding("bundled model", model.is_file(), str(model.parent), "check the clone: the model files are missing")
    yield engine_kernels()
    parent = next(folder for folder in (data_dir, *data_dir.absolute().parents) if folder.exists())
    yield Finding("data directory", os.access(parent, os.W_OK), str(data_dir), f"make {parent} writable")
    free = shutil.disk_usage(parent).free / 2**30
    yield Finding("disk", free >= 1, f"{free:.1f} GiB free", "at least 1 GiB")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            yield Finding("port", True, f"{host}:{port} is free")
        except OSError as error:
            yield Finding("port", False, f"{host}:{port}: {error.strerror}", "another --port, or stop what holds it")


def engine_kernels() -> Finding:
    """Which kernels the embedded engine has chosen by timing on this processor, and where that is kept."""
    from agents.engine.ops.kept_choices import cache_folder, read_file
    from agents.engine.ops.processor_identity import processor_name

    name, folder = "engine kernels", cache_folder()
    found, broken = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            identity, choices = read_file(path)
        except (OSError, ValueError) as error:
            broken.append(f"{path.name}: {error}")
            continue
        if identity.get("processor") == processor_name():
            counts = Counter(choice.kernel for choice in choices.values())
            kernels = ", ".join(f"{count} {kernel}" for kernel, count in sorted(counts.items()))
            settings = "".join(f", {key}={value}" for key, value in sorted(identity.get("settings", {}).items()))
            found.append(f"{identity.get('threads')} threads{settings}: {kernels}")
    if broken:
        return Finding(name, True, f"unreadable, made anew at the next start: {'; '.join(broken)}")
    if not found:
        return Finding(name, True, f"not timed yet on this processor; the first start of an engine does it ({folder})")
    return Finding(name, True, f"sizes of layers by kernel, {'; '.join(found)} ({folder})")


@app.callback()
def doctor(
    context: typer.Context,
    data_dir: Annotated[
        Path,
        typer.Option(envvar="TAILWRIGHT_DATA_DIR", help="Where `tailwright up` keeps its data."),
    ] = Path("tailwright-data"),
    host: Annotated[str, typer.Option(envvar="TAILWRIGHT_HOST", help="Address it listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="TAILWRIGHT_PORT", help="Port it listens on.", min=1, max=65535)] = 7300,
    as_json: Json = False,
) -> None:
    """Check this installation; status 1 when something would keep it from running. `doctor vllm` checks one of vLLM."""
    if context.invoked_subcommand is not None:
        return
    findings = list(examine(data_dir, host, port))
    if as_json:
        print_json(document_of(findings))
    else:
        tell(findings)
    raise typer.Exit(status(findings))
