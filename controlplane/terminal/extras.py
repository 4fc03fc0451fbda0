"""Parts are loaded when they are needed; a missing optional one names its install command instead of a traceback."""

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import typer

PROBES = {
    "server": (
        "cryptography",
        "fastapi",
        "sqlmodel",
        "alembic",
        "zstandard",
        "uvicorn",
        "prometheus_client",
        "numpy",
        "cramjam",
    ),
    "agent": ("websockets", "opentelemetry.proto", "orjson", "psutil"),
    "engine": ("torch", "safetensors", "tokenizers", "fastapi", "httptools", "uvicorn"),
    "tuner": ("optuna", "scipy", "numpy", "httptools"),
    "web": ("jinja2", "cramjam", "multipart"),
}
"""For each extra of pyproject.toml, modules that come with it."""


def missing(extra: str) -> list[str]:
    """The modules of `extra` that cannot be found."""
    absent = []
    for module in PROBES[extra]:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            absent.append(module)
    return absent


def need(command: str, *extras: str) -> None:
    """Leave with status 2 and the install command when a part that `command` needs is not installed."""
    lacking = [extra for extra in extras if missing(extra)]
    if not lacking:
        return
    modules = ", ".join(module for extra in lacking for module in missing(extra))
    typer.echo(
        f"tailwright {command} needs {modules}, which this environment lacks.\n"
        f"Install it in the checkout: pip install -c constraints.txt -e '.[{','.join(lacking)}]'",
        err=True,
    )
    raise typer.Exit(2)


def load(module: str) -> ModuleType:
    """Import a part of Tailwright when it is first needed, so that `--help` stays quick."""
    if module in sys.modules:
        return sys.modules[module]
    with loading():
        return importlib.import_module(module)


@contextmanager
def loading() -> Iterator[None]:
    """Around imports. Python's collector of reference cycles rests meanwhile, and leaves alone for ever what there is
    by then: what modules consist of stays, and to walk it again and again is a fifth of a start."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
