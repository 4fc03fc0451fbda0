"""Fields no model has are found at any depth, and free objects stay free."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from controlplane.api.unknown_fields import unknown_fields


class Leaf(BaseModel):
    value: int


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Tree(BaseModel):
    leaf: Leaf | None = None
    leaves: list[Leaf] = []
    shape: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    free: dict[str, Any] = {}
    by_name: dict[str, Leaf] = {}
    by_name_or_none: dict[str, list[Leaf]] | None = None
    anything: Any = None


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"leaf": {"value": 1}, "leaves": [{"value": 2}], "free": {"a": {"b": 1}}, "anything": {"c": 1}}, []),
        ({"lief": 1}, ["body.lief"]),
        ({"leaf": {"valu": 1}}, ["body.leaf.valu"]),
        ({"leaves": [{"value": 1}, {"valu": 1}]}, ["body.leaves.1.valu"]),
        ({"shape": {"kind": "circle", "radius": 1}}, []),
        ({"shape": {"kind": "circle", "colour": 1}}, ["body.shape.colour"]),
        ({"shape": {"kind": "circle", "side": 1}}, ["body.shape.side"]),
        ({"shape": {"kind": "star", "side": 1}}, []),
        ({"a": 1, "b": 2}, ["body.a", "body.b"]),
        ({"by_name": {"a": {"value": 1}}, "by_name_or_none": {"b": [{"value": 2}]}}, []),
        ({"by_name": {"a": {"valu": 1}}}, ["body.by_name.a.valu"]),
        ({"by_name_or_none": {"b": [{"value": 2}, {"x": 2}]}}, ["body.by_name_or_none.b.1.x"]),
        ({"leaf": 3, "leaves": "x", "shape": [1]}, []),
        ([], []),
        (None, []),
    ],
)
def test_unknown_fields_are_found(value: Any, fields: list[str]) -> None:
    assert [message.partition(":")[0] for message in unknown_fields(Tree, value)] == fields


def test_the_nearest_name_is_told() -> None:
    assert "did you mean 'leaves'?" in next(unknown_fields(Tree, {"leavs": []}))
