"""Which knobs a study in production may move, and how far, as its pool's nodes are now (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import KNOBS, ChangeClass, largest
from controlplane.studies.online.next_values import Reach, reach_of
from controlplane.studies.online.walk import Bounds


def held_to(spec: StudyCreate) -> Bounds:
    """What the study is held to, whatever knobs it may move."""
    assert spec.online is not None
    return Bounds({}, spec.online.step, spec.max_trials, spec.online.max_taken_back, spec.max_duration_s)


def bounds_of(spec: StudyCreate, serving: Sequence[NodeView]) -> Bounds:
    """The same with those knobs. Raises `BadRequest` for a knob of its own, or a value, that a node cannot take while
    it serves, and where no knob is left."""
    has_vllm = any(node.backend == "vllm" for node in serving)
    return replace(held_to(spec), reach=_reaches(spec.space, serving), tokens_at_least_seqs=has_vllm)


def _reaches(space: Mapping[str, KnobRange], serving: Sequence[NodeView]) -> dict[str, Reach]:
    found: dict[str, Reach] = {}
    for name in space or KNOBS:
        needs = next(((node, kind) for node in serving if (kind := _class(name, node)) is not ChangeClass.LIVE), None)
        if needs is None:
            found[name] = _reach(name, space.get(name), serving)
        elif space:
            node, kind = needs
            raise BadRequest(
                f"space.{name}: changing it takes a {kind.value} of node {node.node}; a study in production (online) "
                "moves what changes live on every node",
                field=f"space.{name}",
            )
    if not found:
        raise BadRequest("online: no knob changes live on every node of the pool", field="online")
    return found


def _class(name: str, node: NodeView) -> ChangeClass:
    return class_of(name, node.backend, node.effective)


def _reach(name: str, wanted: KnobRange | None, serving: Sequence[NodeView]) -> Reach:
    if wanted is not None:
        for node in serving:
            _check_within(name, wanted, node)
    mosts = [most for node in serving if (most := _most(name, node)) is not None]
    return reach_of(name, wanted, min(mosts, default=None), max((_least(name, node) for node in serving), default=0))


def _check_within(name: str, wanted: KnobRange, node: NodeView) -> None:
    """Raises `BadRequest` for what the node cannot take while it serves."""
    numbers, most, least = _numbers(wanted), _most(name, node), _least(name, node)
    listed = wanted.choices is not None
    if most is not None and max(numbers) > most:
        field = f"space.{name}.{'choices' if listed else 'maximum'}"
        told = f"at most {most} while it serves, not {max(numbers)}"
    elif low := [one for one in numbers if 0 < one < least]:
        field = f"space.{name}.{'choices' if listed else 'minimum'}"
        told = f"no fewer than {least} while it serves, not {min(low)}"
    else:
        return
    raise BadRequest(f"{field}: node {node.node} takes {told}", field=field)


def _most(name: str, node: NodeView) -> int | None:
    if node.effective is None:
        return None
    told = (node.effective.live_limits.get(name), node.effective.limits.get(name))
    return min((one for one in told if one is not None), default=None)


def _least(name: str, node: NodeView) -> int:
    return 0 if node.effective is None else node.effective.live_floors.get(name, 0)


def _numbers(wanted: KnobRange) -> list[int]:
    """Of a range its ends."""
    values: Sequence[Any] = [wanted.minimum, wanted.maximum] if wanted.choices is None else wanted.choices
    return [largest(value) for value in values]
