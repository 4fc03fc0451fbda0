"""Knobs that nodes declare: their form, their values' canonical form, and who is told when nobody declares one."""

from typing import Any

import pytest
from pydantic import ValidationError

from controlplane.contract.errors import BadRequest, KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import KNOBS, ChangeClass, EngineConfig, canonical_json, config_hash
from controlplane.contract.reports.declared_knobs import (
    AS_STARTED,
    DeclaredKnob,
    between,
    by_some,
    completed,
    is_name,
    kept_config,
    knob_of,
    names_in_order,
    parse_declared,
    started_as,
)

RESTART, LIVE = ChangeClass.RESTART, ChangeClass.LIVE
BLOCKS = DeclaredKnob(change_class=RESTART, start=16, values=(16, 32), unit="tokens")
SHARE = DeclaredKnob(change_class=LIVE, start=0, minimum=0, maximum=0.9)
WHOLE = DeclaredKnob(change_class=RESTART, start=4, minimum=1, maximum=64, log=True)
DTYPE = DeclaredKnob(change_class=RESTART, start="auto", values=("auto", "fp8"))
EAGER = DeclaredKnob(change_class=RESTART, start=False, values=(False, True))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"values": None}, "give either values, or minimum and maximum"),
        ({"minimum": 1, "maximum": 2}, "give either values, or minimum and maximum"),
        ({"values": None, "minimum": 1}, "give either values, or minimum and maximum"),
        ({"values": None, "minimum": 3, "maximum": 2}, "no range"),
        ({"values": None, "minimum": 0, "maximum": 20, "log": True}, "log wants a minimum above 0"),
        ({"values": (16, 16)}, "twice"),
        ({"start": 64}, "start: 64 is not one of 16, 32"),
        ({"values": ("a b", 16)}, "pattern"),
        ({"values": (16, float("inf"))}, "finite"),
    ],
)
def test_what_is_no_knob_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        DeclaredKnob.model_validate({"change_class": RESTART, "start": 16, "values": (16, 32), **wrong})


@pytest.mark.parametrize(
    ("knob", "given", "found"),
    [
        (BLOCKS, 32, 32),
        (BLOCKS, 32.0, 32),
        (SHARE, 0, 0.0),
        (SHARE, 0.25, 0.25),
        (WHOLE, 64, 64),
        (DTYPE, "fp8", "fp8"),
        (EAGER, True, True),
    ],
)
def test_a_value_has_one_form(knob: DeclaredKnob, given: Any, found: Any) -> None:
    assert canonical_json(knob.parse(given, "x")) == canonical_json(found) == canonical_json(knob.reads(given))


@pytest.mark.parametrize(
    ("knob", "given", "why"),
    [
        (BLOCKS, 24, "x: 24 is not one of 16, 32 (tokens)"),
        (BLOCKS, True, "x: True is not one of 16, 32 (tokens)"),
        (EAGER, 1, "x: 1 is not one of false, true"),
        (SHARE, 0.95, "x: 0.95 is outside 0 to 0.9"),
        (SHARE, True, "x: wants a number, got True"),
        (WHOLE, 2.5, "x: wants a whole number, got 2.5"),
        (DTYPE, "fp8 --host", "x: 'fp8 --host' is not one of auto, fp8"),
    ],
)
def test_a_value_outside_is_refused_by_its_field(knob: DeclaredKnob, given: Any, why: str) -> None:
    with pytest.raises(KnobOutOfRange) as caught:
        knob.parse(given, "x")
    assert (caught.value.message, caught.value.detail["field"]) == (why, "x")


def test_a_configuration_names_declared_knobs_beside_the_contracts() -> None:
    some = by_some([{"block_size": BLOCKS}, {"share": SHARE}])
    config = parse_declared({"max_num_seqs": 8, "block_size": 32, "share": 0}, some)
    assert config.knobs() == EngineConfig(max_num_seqs=8).knobs() | {"block_size": 32, "share": 0.0}
    assert EngineConfig.model_validate_json(config.model_dump_json()) == config == kept_config(config.knobs())
    assert config_hash(config) != config_hash(EngineConfig(max_num_seqs=8))
    laid_over = parse_declared({"max_num_seqs": 9}, {}, base=config)
    assert laid_over.knobs()["block_size"] == 32  # What nobody declares any more, nodes refuse themselves.


def test_a_knob_that_nobody_declares_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownKnob) as caught:
        parse_declared({"blocksize": 32}, by_some([{"block_size": BLOCKS}]), prefix="knobs.")
    assert "no node declares it; did you mean 'block_size'?" in caught.value.message
    assert caught.value.detail["field"] == "knobs.blocksize"


def test_what_one_of_several_nodes_takes_is_taken() -> None:
    wider = BLOCKS.model_copy(update={"values": (16, 64)})
    some = by_some([{"block_size": BLOCKS}, {"block_size": wider}, {"block_size": BLOCKS}])
    assert some == {"block_size": [BLOCKS, wider]}
    assert parse_declared({"block_size": 64}, some).knobs()["block_size"] == 64


@pytest.mark.parametrize(
    "values", [{"a b": 1}, {"X": 1}, {"x": [1]}, {"x": None}, {"x": "a/b"}, {"x": "--host"}, {"x": "a" * 65}]
)
def test_what_was_kept_is_of_the_form_all_the_same(values: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        kept_config(values)


def test_what_a_configuration_leaves_out_is_as_at_the_start() -> None:
    assert started_as({"block_size": BLOCKS}, {"max_num_seqs": 8}) == {"block_size": 16, "max_num_seqs": 8}
    assert completed(kept_config({"block_size": 32}), {"block_size": BLOCKS}).knobs()["block_size"] == 32
    assert completed(EngineConfig(), {"share": SHARE}).knobs()["share"] == 0.0


def test_two_configurations_differ_in_what_only_one_of_them_names() -> None:
    old, new = EngineConfig().knobs() | {"block_size": 32}, EngineConfig(max_num_seqs=8).knobs() | {"kv": "fp8"}
    assert between(old, new) == {
        "max_num_seqs": (32, 8),
        "block_size": (32, AS_STARTED),
        "kv": (AS_STARTED, "fp8"),
    }
    assert between(old, old) == {}


def test_names() -> None:
    assert is_name("block_size") and not is_name("max_num_seqs") and not is_name("Block") and not is_name("a" * 65)
    assert names_in_order(["z", "quantization", "a", "max_num_seqs"]) == ["max_num_seqs", "quantization", "a", "z"]


def test_how_they_are_shown() -> None:
    assert knob_of("max_num_seqs", {}) is KNOBS["max_num_seqs"]
    shown = knob_of("block_size", by_some([{"block_size": BLOCKS}]))
    assert (shown.unit, shown.choices, shown.default, shown.vllm) == ("tokens", ("16", "32"), 16, RESTART)
    assert knob_of("gone", {}).help == "Declared by a node that is not there now."
