"""JSON values of another kind than their field's are refused; what JSON calls the same is not."""

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from fastapi.testclient import TestClient
from pydantic import AwareDatetime, BaseModel, Field

from controlplane.api.json_kinds import wrong_kinds


class Circle(BaseModel):
    kind: Literal["circle"]
    size: float


class Square(BaseModel):
    kind: Literal["square"]
    size: int
    filled: bool = False


class Tree(BaseModel):
    count: int = 0
    share: float | None = None
    on: bool = False
    at: datetime | None = None
    aware: AwareDatetime | None = None
    name: str = ""
    either: int | str = 0
    anything: Any = None
    many: list[float] = []
    pair: tuple[float, float] | None = None
    by_name: dict[str, float] = {}
    shape: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    inner: "list[Tree]" = []


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"count": 3, "share": 1, "on": True, "at": "2030-01-01T00:00:00Z", "many": [1, 2.5], "pair": [1, 2]}, []),
        ({"count": 3.0, "share": None, "either": "x", "anything": True, "by_name": {"a": 1}}, []),
        ({"count": True}, ["body.count"]),
        ({"count": "3"}, ["body.count"]),
        ({"share": False}, ["body.share"]),
        ({"on": 1}, ["body.on"]),
        ({"on": "true"}, ["body.on"]),
        ({"at": 0}, ["body.at"]),
        ({"at": True}, ["body.at"]),
        ({"aware": 0}, ["body.aware"]),
        ({"aware": "2030-01-01T00:00:00Z"}, []),
        ({"aware": "2030-01-01 00:00:00+01:00"}, []),
        *(({"aware": text}, ["body.aware"]) for text in ("0", "1735689600", "12.5", "2030-01-01", "today")),
        ({"many": [1, "2", True]}, ["body.many.1", "body.many.2"]),
        ({"pair": [1, True]}, ["body.pair.1"]),
        ({"by_name": {"a": "1"}}, ["body.by_name.a"]),
        ({"shape": {"kind": "circle", "size": True}}, ["body.shape.size"]),
        ({"shape": {"kind": "square", "size": 1, "filled": 0}}, ["body.shape.filled"]),
        ({"inner": [{"inner": [{"count": True}]}]}, ["body.inner.0.inner.0.count"]),
        ([], []),
        ("text", []),
        (None, []),
    ],
)
def test_wrong_kinds_are_found(value: Any, places: list[str]) -> None:
    assert [message.partition(":")[0] for message in wrong_kinds(Tree, value)] == places


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("rollouts", {"pool": "chat", "revision": True}, "body.revision"),
        ("rollouts", {"pool": "chat", "revision": 1, "emergency": 1}, "body.emergency"),
        ("rollouts", {"pool": "chat", "revision": 1, "takes_back": True}, "body.takes_back"),
        ("rollouts", {"pool": "chat", "revision": 1, "objective_q": "0.5"}, "body.objective_q"),
        ("rollouts", {"pool": "chat", "revision": 1, "levels": {"ttft": [0.5, True]}}, "body.levels.ttft.1"),
        (
            "rollouts",
            {"pool": "chat", "revision": 1, "limits": [{"metric": "ttft", "q": 0.5, "limit_s": True}]},
            "body.limits.0.limit_s",
        ),
        ("studies", {"pool": "chat", "max_trials": "12"}, "body.max_trials"),
        ("silences", {"matchers": {"pool": "chat"}, "ends_at": 4102444800}, "body.ends_at"),
        ("alert-rules", {"name": "x", "condition": {"kind": "drift", "for_s": True}}, "body.condition.for_s"),
        (
            "alert-rules",
            {"name": "x", "condition": {"kind": "requests_failed", "baseline_s": True}},
            "body.condition.baseline_s",
        ),
    ],
)
def test_the_api_refuses_them(http: TestClient, path: str, body: Any, field: str) -> None:
    answer = http.post(f"/api/v1/{path}", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["detail"]["field"]) == (400, field)
    assert "wants" in error["message"] and "got" in error["message"]
