"""Attribute sets are remembered by their bytes, and never more of them than the limit."""

import pytest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from controlplane.contract import metrics
from controlplane.telemetry.otlp.labels import MAX_REMEMBERED_BYTES, Origins, label_set
from controlplane.telemetry.values.refusal import Reason, Refused
from tests.controlplane.telemetry.conftest import attribute


def resource(node: str) -> bytes:
    return Resource(attributes=[attribute(metrics.NODE.name, node)]).SerializeToString()


def test_what_is_remembered_is_bounded() -> None:
    origins = Origins(remembered_sets=10)
    for number in range(50):
        body = resource(f"n{number % 8}")
        origin = origins.of(body)
        for model in ("a", "b"):
            found = label_set(origin, [attribute(metrics.MODEL.name, model).SerializeToString()])
            assert found.labels == f'{{"model":"{model}","node":"n{number % 8}"}}'
        origins.remember(body, origin)
        assert sum(len(one.sets) + 1 for one in origins._found.values()) <= 10
    assert len(origins) == 3
    assert origins.of(resource("n1")) is origins.of(resource("n1"))


def test_one_origin_alone_can_be_too_much() -> None:
    origins = Origins(remembered_sets=10)
    origin = origins.of(resource("n"))
    for number in range(20):
        label_set(origin, [attribute(metrics.MODEL.name, str(number)).SerializeToString()])
    origins.remember(resource("n"), origin)
    assert len(origins) == 0


def test_long_attributes_are_read_and_forgotten() -> None:
    origins = Origins()
    long = resource("n") + Resource(attributes=[attribute("x", "y" * MAX_REMEMBERED_BYTES)]).SerializeToString()
    origin = origins.of(long)
    origins.remember(long, origin)
    assert len(origins) == 0
    label_set(origin, [attribute("x", "y" * MAX_REMEMBERED_BYTES).SerializeToString()])
    assert not origin.sets


def test_a_resource_that_cannot_be_read() -> None:
    with pytest.raises(Refused) as raised:
        Origins().of(resource("bad").replace(b"bad", b"b\xffd"))
    assert raised.value.reason is Reason.LABEL


def test_the_order_of_attributes_makes_no_other_point() -> None:
    origin = Origins().of(resource("n"))
    pair = [attribute(metrics.MODEL.name, "m").SerializeToString(), attribute("other", 3).SerializeToString()]
    assert label_set(origin, pair) == label_set(origin, reversed(pair))
    assert label_set(origin, pair).identity != label_set(origin, pair[:1]).identity
