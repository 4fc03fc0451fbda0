"""The reference operations are their definitions."""

import pytest

from agents.engine.ops.torch_ops import TorchOps
from tests.agents.engine.ops.ops_conformance import OpsBitStability, OpsConformance


class TestTorchOps(OpsConformance, OpsBitStability):
    @pytest.fixture
    def ops(self) -> TorchOps:
        return TorchOps()
