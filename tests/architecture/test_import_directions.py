"""The import directions of the design hold, and the packages are the checkout's own."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("package", ["controlplane", "agents", "tuner", "web"])
def test_package_is_imported_from_the_checkout(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().is_relative_to(ROOT)


@pytest.mark.slow
def test_import_linter_finds_no_wrong_direction() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


HEAVY = ("fastapi", "sqlmodel", "sqlalchemy", "torch", "numpy", "httpx", "optuna")


CONTRACT = ROOT / "controlplane/contract"
MODULES = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CONTRACT.rglob("[a-z]*.py"))
EACH_BY_ITSELF = f"""
import importlib, json, os, sys, traceback
import pydantic  # What the contract may load is loaded once; each module then in a process of its own.

for module in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    try:
        importlib.import_module(module)
        told = [name for name in {HEAVY!r} if name in sys.modules]
    except Exception:
        told = traceback.format_exc()
    print(json.dumps([module, told]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str] | str]:
    """By module, what of `HEAVY` its import loads; or why it could not be imported."""
    probe = [sys.executable, "-c", EACH_BY_ITSELF, *MODULES]
    done = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_contract_loads_nothing_heavy(loaded: dict[str, list[str] | str], module: str) -> None:
    assert loaded[module] == []


@pytest.mark.slow
def test_command_line_starts_without_heavy_imports() -> None:
    probe = (
        "import sys, controlplane.command.main;"
        "print(','.join(name for name in ('torch', 'optuna', 'sqlmodel') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_no_generic_module_names() -> None:
    banned = {"utils", "util", "common", "helpers", "helper", "misc", "types"}
    found = [
        str(path.relative_to(ROOT))
        for top in ("controlplane", "agents", "tuner", "web")
        for path in (ROOT / top).rglob("*.py")
        if path.stem in banned or set(path.relative_to(ROOT).parts[:-1]) & banned
    ]
    assert found == []


def test_tests_have_no_package_files() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
