"""Fixtures: an engine made of waiting, real trace files when they are there, a small captured workload."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data"


def _sibling(name: str) -> ModuleType:
    """A module of this folder; tests are no package and lie on no path."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


_sibling("sse_engine")
_sibling("study_service")

from sse_engine import SseEngine  # noqa: E402


@pytest.fixture
def engine() -> Iterator[SseEngine]:
    with SseEngine() as running:
        yield running


@pytest.fixture
def azure() -> Path:
    return _data("azure-llm-2023")


@pytest.fixture
def mooncake() -> Path:
    return _data("mooncake-fast25")


def _data(folder: str) -> Path:
    path = DATA / folder
    if not path.is_dir():
        pytest.skip(f"the trace folder {folder} is not here")
    return path
