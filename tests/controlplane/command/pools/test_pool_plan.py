"""What a pool's file would change: also in knobs that the pool's nodes declare."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controlplane.command.pools.pool_files import PoolFile
from controlplane.command.pools.pool_plan import PoolSeen, plan_pool
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeRole, NodeView
from controlplane.contract.errors import UnknownKnob
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import DeclaredKnob

BLOCKS = DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32))


def seen(**declared: DeclaredKnob) -> PoolSeen:
    node = NodeView(node="a", pool="chat", role=NodeRole.SERVING, backend="vllm", connected=True, healthy=True)
    runs = EffectiveConfig(revision=1, knobs=EngineConfig().knobs(), declared=declared)
    node = node.model_copy(update={"effective": runs, "desired_revision": 1})
    made = Revision(
        number=1, hash="x", knobs=EngineConfig(), created_by="me", created_at=datetime(2026, 3, 1, tzinfo=UTC)
    )
    return PoolSeen(nodes=[node], revisions=[made], rollouts=[], policy=None)


def file(**config: Any) -> PoolFile:
    return PoolFile(Path("chat.toml"), "chat", config, None, {})


def test_a_knob_that_the_pools_nodes_declare_is_a_change() -> None:
    (change,) = plan_pool(file(block_size=32), seen(block_size=BLOCKS), again=False).knobs
    assert (change.field, change.old, change.new) == ("block_size", None, 32)


def test_one_that_they_do_not_declare_is_refused() -> None:
    with pytest.raises(UnknownKnob, match=r"config.block_size: no such knob"):
        plan_pool(file(block_size=32), seen(), again=False)
