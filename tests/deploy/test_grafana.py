"""deploy/grafana: every dashboard is whole, every expression parses, and every metric in it is one that we show."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.clock import utc_now
from controlplane.serving.authority import Authority
from tests.peers import promtool

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
VARIABLES = {"$__rate_interval": "5m", "$pool": "chat", "$instance": ".*"}
NAME = re.compile(r"\b((?:tailwright|process)_[a-z0-9_]+|[a-z_]+:tailwright_[a-z0-9_:]+)\b")


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def expressions(path: Path) -> list[str]:
    found = [target["expr"] for panel in dashboard(path)["panels"] for target in panel["targets"]]
    for name, value in VARIABLES.items():
        found = [expression.replace(name, value) for expression in found]
    return found


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """Every name of a series that /metrics of a service with TLS declares, and those that our rules record."""
    folder, authority = tmp_path_factory.mktemp("service"), Authority(tmp_path_factory.mktemp("tls"))
    authority.init(utc_now())
    authority.issue_server("service", ["localhost"], utc_now())
    cert, key = authority.folder / "service.pem", authority.folder / "service.key"
    app = create_app(ServiceSettings(data_dir=folder, log_level="error", tls_cert=cert, tls_key=key))
    app.state.service.telemetry.start()
    declared = [line.split()[2:4] for line in TestClient(app).get("/metrics").text.splitlines() if "# TYPE" in line]
    app.state.service.telemetry.close()
    app.state.service.database.close()
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    names = {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule}
    for name, kind in declared:
        names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    yield names


def test_there_are_dashboards_with_an_identity_each() -> None:
    assert len(DASHBOARDS) >= 3
    found = [dashboard(path) for path in DASHBOARDS]
    assert len({one["uid"] for one in found}) == len({one["title"] for one in found}) == len(found)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path) -> None:
    found = dashboard(path)
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    for panel in panels:
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == source["uid"]
    declared = {f"${variable['name']}" for variable in found["templating"]["list"]} | {"$__rate_interval"}
    for expression in (target["expr"] for panel in panels for target in panel["targets"]):
        assert set(re.findall(r"\$\w+", expression)) <= declared


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_expression_parses(path: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:panel:{number}", "expr": expression}
        for number, expression in enumerate(expressions(path))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(file))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_is_one_that_the_service_shows(path: Path, shown: set[str]) -> None:
    for expression in expressions(path):
        names = set(NAME.findall(expression))
        assert names, expression
        assert names <= shown, expression


def test_every_metric_of_the_rules_is_shown_too(shown: set[str]) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert set(NAME.findall(rule["expr"])) <= shown, rule["expr"]


def test_the_variables_ask_for_labels_that_exist(shown: set[str]) -> None:
    for path in DASHBOARDS:
        for variable in dashboard(path)["templating"]["list"]:
            (name,) = NAME.findall(variable["definition"])
            assert name in shown
