"""How long a wave of nodes may take, where the rollout does not say."""

from datetime import UTC, datetime
from typing import Any

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.knobs import ChangeClass, EngineConfig, config_hash
from controlplane.rollouts.patience import LIVE_TIMEOUT_S, apply_timeout_s


def revision(**knobs: Any) -> Revision:
    config = EngineConfig(**knobs)
    return Revision(
        number=2, hash=config_hash(config), knobs=config, created_by="t", created_at=datetime(2030, 1, 1, tzinfo=UTC)
    )


def node(**effective: Any) -> NodeView:
    told = EffectiveConfig(revision=1, knobs=EngineConfig().knobs(), **effective)
    return NodeView(node="a", pool="p", role="serving", backend="vllm", connected=True, healthy=True, effective=told)


def test_it_is_that_of_the_hardest_change_on_any_node() -> None:
    assert RolloutCreate(pool="p", revision=2).apply_timeout_s is None
    cost = {ChangeClass.RESTART: ChangeCost(count=1, last_s=240.0, mean_s=200.0)}
    assert apply_timeout_s([node(), node(costs=cost)], revision(max_num_seqs=8)) == LIVE_TIMEOUT_S
    assert apply_timeout_s([node()], revision(quantization="int8")) == 600.0
    assert apply_timeout_s([node(), node(costs=cost)], revision(quantization="int8")) == 960.0
    limits = {"max_num_batched_tokens": 1024}
    assert apply_timeout_s([node(live_limits=limits)], revision(max_num_batched_tokens=2048)) == 600.0
    assert apply_timeout_s([], revision(quantization="int8")) == LIVE_TIMEOUT_S
