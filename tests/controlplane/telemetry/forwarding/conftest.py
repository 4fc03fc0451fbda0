"""A reader that is no store: what an export says must not depend on how telemetry is kept."""

from collections.abc import Callable, Sequence

import pytest

from controlplane.evidence.sketch import Sketch
from tests.controlplane.telemetry.fake_reader import FakeReader, sketch_of


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture(scope="session")
def make_reader() -> Callable[..., FakeReader]:
    return FakeReader


@pytest.fixture
def make_sketch() -> Callable[[Sequence[float]], Sketch]:
    return sketch_of
