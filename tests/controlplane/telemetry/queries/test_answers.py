"""What is written as JSON without a model is what the documented model says."""

from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest

from controlplane.contract.bodies.telemetry import QuantilesAnswer

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def reported(api: httpx.Client, make_report: Any, start: Any) -> None:
    for second in range(0, 40, 5):
        for node, pool in (("a", "chat"), ("b", "chat"), ("c", "batch")):
            report = make_report(node=node, pool=pool, start=start + timedelta(seconds=second))
            report.histogram([1e-4 * (second + 1), 0.1, 0.2, 3.0])
            api.post("/v1/metrics", content=report.request.SerializeToString(), headers=PROTOBUF)


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize(
    "asked", [{}, {"by": "node"}, {"step": "10s"}, {"step": "5s", "by": "pool,node"}, {"pool": "absent"}]
)
def test_quantiles_are_their_model(api: httpx.Client, start: Any, asked: dict[str, str]) -> None:
    span = {"start": start.isoformat(), "end": (start + timedelta(minutes=1)).isoformat()}
    answer = api.get("/api/v1/quantiles", params={"metric": "ttft", "q": "0,0.5,0.99,1", **span, **asked})
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
    body = orjson.loads(answer.content)
    model = QuantilesAnswer.model_validate_json(answer.content)
    assert orjson.loads(model.model_dump_json()) == body
    assert list(body) == list(QuantilesAnswer.model_fields)
    assert bool(body["series"]) == (asked != {"pool": "absent"})


def test_the_models_stand_in_the_document(api: httpx.Client) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    for name in ("Quantiles", "Rates", "Shares", "Heatmap", "Scalars"):
        said = paths[f"/api/v1/{name.lower()}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert said == {"$ref": f"#/components/schemas/{name}Answer"}
