"""The guide's example runs as it stands, against a real engine."""

import contextlib
import io
import re
from pathlib import Path

from controlplane.contract import metrics
from tests.agents.client_measure.served_engine import MODEL, ServedEngine

GUIDE = Path(__file__).resolve().parents[3] / "docs/client.md"


def test_the_example_runs_and_tells_all_it_promises(engine: ServedEngine) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    example = example.replace("http://127.0.0.1:7400", engine.url).replace("tailwright-py-5m", MODEL)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(example, str(GUIDE), "exec"), {"__name__": "example"})
    lines = [line.split() for line in told.getvalue().splitlines()]
    assert [name for name, _ in lines] == ["client_connect", "client_ttft", "client_itl", "client_e2e"]
    assert all(float(value) > 0 for _, value in lines)


def test_the_guide_names_every_metric_of_the_client() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    names = [metric.short for metric in metrics.METRICS if metric.short.startswith("client_")]
    assert len(names) == 10
    assert [name for name in names if f"`{name}`" not in guide] == []
