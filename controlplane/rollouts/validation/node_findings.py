"""What speaks against a configuration on nodes (pure), from what each says of itself.

Guarantees: nothing is supposed of a node that it has not told. A finding refuses only where the node itself would:
above its `limits`, in a format it has no weights in, beyond the memory it tells of, outside the contract's bounds, or
of a knob that it does not declare.
What it has not told, what a change costs, and all about a node that is away is told, and refuses nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.change import class_of, goes_live, needed_class, restarting
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.changes.findings import Finding
from controlplane.contract.errors import BadRequest, KnobOutOfRange
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_SEQS,
    QUANTIZATION,
    ChangeClass,
    difference,
    largest,
    parse_knob,
)
from controlplane.contract.planning.memory_estimate import estimate, full_length_requests, refusal
from controlplane.contract.reports.declared_knobs import started_as

MEMORY = "effective.memory"
"""The field of findings about memory that are about no single knob."""


def findings(knobs: Mapping[str, Any], nodes: Sequence[NodeView]) -> list[Finding]:
    """Of a configuration (JSON values by knob) on these nodes; those that refuse come first, how much memory it takes
    where it fits comes last."""
    unknown = _unknown(knobs, nodes)
    found = [*_of_contract(knobs), *unknown]
    known = {name: value for name, value in knobs.items() if f"knobs.{name}" not in {one.field for one in unknown}}
    for node in nodes:
        found += _of_node(known, node)
    return sorted(found, key=lambda one: (not one.refuses, one.field == MEMORY))


def _of_contract(knobs: Mapping[str, Any]) -> Iterator[Finding]:
    """A revision may be older than the bounds of today."""
    for name in (name for name in knobs if name in KNOBS):
        try:
            parse_knob(name, knobs[name], prefix="knobs.")
        except BadRequest as error:
            said = error.message.removeprefix(f"knobs.{name}: ")
            yield Finding(node="", field=f"knobs.{name}", refuses=True, problem=said, mend="make another revision")


def _unknown(knobs: Mapping[str, Any], nodes: Sequence[NodeView]) -> list[Finding]:
    """Of knobs that are not the contract's, those that none of the nodes that have told declares: said once."""
    told = [node.effective.declared for node in nodes if node.effective is not None]
    missing = [name for name in knobs if name not in KNOBS and told and not any(name in one for one in told)]
    problem, mend = "none of the nodes declares such a knob", "declare it in their node files, or leave it out"
    return [Finding(node="", field=f"knobs.{name}", refuses=True, problem=problem, mend=mend) for name in missing]


def _of_node(knobs: Mapping[str, Any], node: NodeView) -> Iterator[Finding]:
    runs = node.effective
    if runs is None:
        yield _told(node, "effective", "it has not said what it runs, so nothing could be checked")
        return
    if not node.connected:
        yield _told(node, "connected", "it is away; it is held against what it said last, and given it on coming back")
    knobs = started_as(runs.declared, knobs)
    for name, (value, _) in difference(knobs, runs.knobs, unreported=True).items():
        if name not in KNOBS:
            yield from _of_declared(node, runs, name, value)
            if name not in runs.declared:
                continue
        elif name == QUANTIZATION:
            yield from _of_format(node, runs, value)
        else:
            yield from _of_limits(node, runs, name, value)
        if name not in runs.knobs:
            yield _told(node, f"knobs.{name}", "what it runs cannot be read, so nobody will see whether this arrived")
    yield from _of_change(node, runs, knobs)
    if difference(knobs, runs.knobs, unreported=True):
        yield from _of_memory(node, runs, knobs)


def _of_format(node: NodeView, runs: EffectiveConfig, value: Any) -> Iterator[Finding]:
    if runs.formats and value not in runs.formats:
        has = ", ".join(runs.formats)
        problem, mend = f"it has no weights in {value}", f"one of {has}, or give it weights in that format"
        yield Finding(node=node.node, field=f"knobs.{QUANTIZATION}", refuses=node.connected, problem=problem, mend=mend)


def _of_declared(node: NodeView, runs: EffectiveConfig, name: str, value: Any) -> Iterator[Finding]:
    field = f"knobs.{name}"
    if name not in runs.declared:
        problem = f"it declares no knob {name}"
        mend = f"declare it in its node file, [knobs.{name}], or leave it out of the revision"
        yield Finding(node=node.node, field=field, refuses=node.connected, problem=problem, mend=mend)
        return
    try:
        runs.declared[name].parse(value, field)
    except KnobOutOfRange as error:
        problem, mend = error.message.removeprefix(f"{field}: "), "choose another, or declare a wider range"
        yield Finding(node=node.node, field=field, refuses=node.connected, problem=problem, mend=mend)


def _of_limits(node: NodeView, runs: EffectiveConfig, name: str, value: Any) -> Iterator[Finding]:
    wanted, most = largest(value), runs.limits.get(name)
    live, least = runs.live_limits.get(name), runs.live_floors.get(name)
    if most is not None and wanted > most:
        problem, mend = f"{wanted} is above {most}, its limit", f"at most {most}, or start its engine with more"
        yield Finding(node=node.node, field=f"knobs.{name}", refuses=node.connected, problem=problem, mend=mend)
    elif class_of(name, node.backend, runs) is ChangeClass.LIVE and not goes_live(runs, name, value):
        above = live is not None and wanted > live
        beyond, mend = (
            (f"above {live}, up", f"at most {live}") if above else (f"below {least}, down", f"at least {least}")
        )
        problem = f"{wanted} is {beyond} to which it changes while it serves, so it restarts"
        yield _told(node, f"knobs.{name}", problem, f"{mend}, to keep it serving")


def _of_memory(node: NodeView, runs: EffectiveConfig, knobs: Mapping[str, Any]) -> Iterator[Finding]:
    """By the node's own figures; the engine refuses by the same estimate."""
    memory = runs.memory
    restarts = restarting(runs, knobs)
    if restarts:
        problem = f"what {', '.join(restarts)} changes in its memory is not known, so whether this fits is not either"
        yield _told(node, MEMORY, problem)
        return
    if memory is None:
        yield _told(node, MEMORY, "it does not tell its memory, so whether this fits there is not known")
        return
    against = refusal(memory, runs.knobs, knobs)
    if against is not None:
        yield Finding(
            node=node.node,
            field=f"knobs.{against.knob}",
            refuses=node.connected,
            problem=against.problem,
            mend=against.mend,
        )
        return
    yield _told(node, MEMORY, estimate(memory, runs.knobs, knobs).sentence)
    seats, whole = knobs.get(MAX_NUM_SEQS, 0), full_length_requests(memory)
    if whole is not None and seats > whole and seats > runs.knobs.get(MAX_NUM_SEQS, 0):
        length = f"the greatest length ({memory.max_model_len} tokens)"
        problem = f"its KV cache holds {whole} requests of {length} at once, not {seats}"
        yield _told(node, f"knobs.{MAX_NUM_SEQS}", problem, "where all are so long, some wait or are preempted")


def _of_change(node: NodeView, runs: EffectiveConfig, knobs: Mapping[str, Any]) -> Iterator[Finding]:
    """What a change that is not live takes there."""
    needed = needed_class(node.backend, runs, knobs)
    if needed in (None, ChangeClass.LIVE):
        return
    cost = runs.costs.get(needed)
    price = "nobody has measured what that takes there"
    if cost is not None:
        price = f"such a change has taken {cost.mean_s:.0f} s there, and requests waited for {cost.unavailable_s:.0f} s"
    yield _told(node, "effective.costs", f"it needs a {needed.value}; {price}")


def _told(node: NodeView, field: str, problem: str, mend: str = "") -> Finding:
    return Finding(node=node.node, field=field, refuses=False, problem=problem, mend=mend)
