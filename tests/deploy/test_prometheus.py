"""deploy/prometheus: promtool finds no fault, the rules do what they say, and a real Prometheus scrapes unchanged."""

import re
from pathlib import Path

import pytest
import yaml

from tests.peers import prometheus, promtool, send, service
from tests.processes import free_port, wait_for

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
TARGET = "127.0.0.1:7300"


def test_promtool_finds_no_fault() -> None:
    promtool("check", "config", str(FOLDER / "prometheus.yml"))
    promtool("check", "rules", str(FOLDER / "rules.yml"))


def test_the_rules_fire_when_they_should() -> None:
    promtool("test", "rules", "rules_test.yml", cwd=FOLDER)


def test_every_alert_has_a_test() -> None:
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == alerts


def test_a_real_prometheus_scrapes_and_evaluates_the_rules(tmp_path: Path) -> None:
    with service(tmp_path / "service") as running:
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(FOLDER / "rules.yml")]
        (scrape,) = config["scrape_configs"]
        assert scrape["static_configs"] == [{"targets": [TARGET]}]
        scrape["static_configs"] = [{"targets": [running.url.removeprefix("http://")]}]
        send(running, "chat")
        with prometheus(tmp_path / "prometheus", yaml.safe_dump(config), free_port()) as scraping:

            def recorded() -> object:
                send(running, "chat")
                return scraping.query('pool:tailwright_fleet_ttft_seconds:max{pool="chat", q="0.99"}')

            (found,) = wait_for("the recorded quantile", recorded)
            assert 0.24 < float(found["value"][1]) < 0.26
            assert scraping.query('up{job="tailwright"} == 1')
            assert scraping.query('tailwright_background_failing{task="rollouts"} == 0')
            (values,) = scraping.query('tailwright_fleet_values{pool="chat", metric="ttft"}')
            assert float(values["value"][1]) >= 6
            text = running.http.get("/metrics").text
            ours = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
            for name in sorted(ours):
                if re.search(rf"^{name}(_total|_bucket|_count)?(\{{| )", text, re.MULTILINE):
                    scraped = f'count({{__name__=~"{name}(_total|_count)?"}})'
                    wait_for(f"{name} is scraped", lambda query=scraped: scraping.query(query), 30)
