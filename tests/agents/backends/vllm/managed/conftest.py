"""A managed node of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.backends.vllm.managed.managed_node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.clear()
