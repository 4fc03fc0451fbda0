"""First act: a fleet comes up, traffic flows, and a baseline of its latency is measured."""

from datetime import datetime

import httpx

from agents.demo.figures import Span, read_span
from agents.demo.plan import POOL
from agents.demo.scene import Scene, Step, headline
from controlplane.contract.bodies.alerts import AlertRuleCreate, Remedy
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.remedies import RemedyPolicy
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.clock import utc_now

BASELINE_REQUESTS = 100


class Beginning:
    """Ends with a pool in which nothing has been changed yet, and `spans[0]`, "before"."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def steps(self) -> list[Step]:
        agents = ("node-1-agent", "node-2-agent", "trial-1-agent")
        return [
            Step("Control plane answers, durable", self.service_starts, "/readyz"),
            Step(
                "Two serving nodes and a trial node enrol",
                self.nodes_enrol,
                "/fleet",
                ("node-1-engine", *agents, "service"),
            ),
            Step(
                "Traffic flows, every part of its latency is seen", self.traffic_flows, "/explore", ("traffic", *agents)
            ),
            Step("A baseline is measured", self.baseline, "/explore", ("traffic", "service")),
        ]

    def service_starts(self) -> None:
        scene = self._scene
        scene.fleet.start_service()

        def look() -> tuple[bool | None, str]:
            answer = httpx.get(f"{scene.fleet.url}/readyz", timeout=2, trust_env=False)
            return (True if answer.status_code == 200 else None), f"/readyz answers {answer.status_code}"

        scene.until("the control plane gets ready", scene.plan.start_limit_s, look)
        scene.view.announce(f"Dashboard: {scene.fleet.sign_in_link()}")
        scene.view.announce(f"Later: {scene.fleet.url}, with the token in {scene.fleet.token_file('dashboard-token')}")

    def nodes_enrol(self) -> None:
        scene = self._scene
        scene.fleet.start_nodes()
        wanted = len(scene.plan.engine_ports) + 1

        def look() -> tuple[bool | None, str]:
            ready = [node.node for node in scene.client.nodes() if _serves(node)]
            starting = scene.fleet.engines.news()
            news = f"{len(ready)} of {wanted} nodes healthy: {', '.join(ready)}"
            return (True if len(ready) == wanted else None), f"{news}; {starting}" if starting else news

        scene.until("every node enrols and reports its effective configuration", scene.plan.start_limit_s, look)
        scene.client.create_destination(
            DestinationCreate(name="on-call", url=scene.receiver.url, secret=scene.fleet.webhook_secret)
        )
        # A bad change makes requests slower, or only wait: whichever is told first begins the remedy.
        remedy = Remedy(study=scene.plan.study(), policy=RemedyPolicy.AUTOMATIC)
        for rule in scene.client.alert_rules():
            if rule.condition.kind in ("regression", "saturation"):
                remedied = {**rule.model_dump(include=set(AlertRuleCreate.model_fields)), "remedy": remedy}
                scene.client.update_alert_rule(rule.id, AlertRuleCreate.model_validate(remedied))

    def traffic_flows(self) -> None:
        scene = self._scene
        scene.fleet.start_traffic()
        scene.traffic_since = utc_now()

        def look() -> tuple[bool | None, str]:
            nodes = {s.labels["node"]: s.count for s in scene.quantiles("e2e", window="1m", by=["node"])}
            shares = scene.client.scalars("unaccounted_share", window="1m", pool=POOL).series
            enough = len(nodes) == len(scene.plan.engine_ports) and min(nodes.values()) >= 10
            share = f", unaccounted {100 * shares[0].value:.2f} %" if shares else ""
            return (True if enough and shares else None), f"requests seen: {nodes}{share}"

        scene.until("both nodes report finished requests", scene.plan.start_limit_s, look)

    def baseline(self) -> None:
        """An alarm of this time is told for what it is, and waited out; one that stays hides no other."""
        scene, plan = self._scene, self._scene.plan
        began = scene.traffic_since
        assert began is not None

        def look() -> tuple[Span | None, str]:
            span = read_span(scene.client, "before", began, utc_now())
            seen_s = (utc_now() - began).total_seconds()
            news = f"{seen_s:.0f} s, {span.requests} requests, {headline(span)}"
            early, calm = self._early_alarms(seen_s)
            done = seen_s >= plan.baseline_s and span.requests >= BASELINE_REQUESTS and calm
            return (span if done else None), f"{news}{early}"

        limit_s = 3 * plan.baseline_s
        span = scene.until(f"a baseline of at least {BASELINE_REQUESTS} requests", limit_s, look)
        scene.keep(span)
        scene.good_revision = self._production_revision()

    def _early_alarms(self, seen_s: float) -> tuple[str, bool]:
        """What fires although nothing was changed, in words; and whether the story may go on."""
        found = self._scene.open_alerts()
        if not found:
            return "", True
        told = "; ".join(alert.diagnosis.summary if alert.diagnosis else alert.summary for alert in found)
        waited_out = seen_s >= self._scene.plan.baseline_s + self._scene.plan.early_alarm_s
        after = "it is still open, and hides nothing" if waited_out else "waiting until it is over"
        return f"; an alarm before any change ({after}): {told}", waited_out

    def _production_revision(self) -> int:
        """The pool's revision, as its nodes were told or, where they were told none, run it."""

        def look() -> tuple[int | None, str]:
            numbers = [
                node.desired_revision or (node.effective.revision if node.effective else 0)
                for node in self._scene.serving()
            ]
            return next((number for number in numbers if number), None), f"the nodes' revisions: {numbers}"

        return self._scene.until("the pool has a revision in production", self._scene.plan.start_limit_s, look)


def _serves(node: NodeView) -> bool:
    return node.connected and node.healthy and node.effective is not None


def seconds_since(time: datetime) -> float:
    return (utc_now() - time).total_seconds()
