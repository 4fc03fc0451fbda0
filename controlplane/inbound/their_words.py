"""What an alert of another system says in our words: how urgent it is, of which pool and node, and a title. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.alerts.channels.wording import cut, one_line
from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.metrics import NODE, POOL

_PAGES = "page critical crit error fatal emergency emerg disaster high urgent major p0 p1 sev0 sev1"
PAGES = frozenset(_PAGES.split())
"""Values of the label `severity` (or `priority`) that wake somebody here, too; each other, and none, is a ticket."""
SEVERITY_LABELS = ("severity", "priority")
POOL_LABELS = (POOL.label, "tailwright_pool")
NODE_LABELS = (NODE.label, "instance", "hostname", "host", "nodename", "pod", "exported_instance")
SAID_IN = ("summary", "title", "message", "description")
MOST_TITLE = 300


@dataclass(frozen=True)
class KnownNode:
    """A node of the fleet; host: of its engine's address, "" where it is not known or everybody's own."""

    node: str
    pool: str
    host: str = ""


def severity_of(labels: Mapping[str, str]) -> Severity:
    said = next((labels[name] for name in SEVERITY_LABELS if labels.get(name)), "")
    return Severity.PAGE if said.strip().lower() in PAGES else Severity.TICKET


def title_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """What it says in one line; else its name and labels."""
    said = next((line for name in SAID_IN if (line := one_line(annotations.get(name, "")))), "")
    return cut(said or one_line(f"{name_of(labels)}: {_listed(labels)}"), MOST_TITLE)


def name_of(labels: Mapping[str, str]) -> str:
    return cut(one_line(labels.get("alertname", "")) or "an alert", 128)


def place_of(labels: Mapping[str, str], nodes: Iterable[KnownNode]) -> dict[str, str]:
    """The labels `pool` and `node`, each where it can be told: a name it gives is a node of the fleet, or its host."""
    names = [host_of(labels[name]) for name in NODE_LABELS if labels.get(name)]
    known = {one.host: one for one in nodes if one.host} | {one.node: one for one in nodes}
    found = next((known[name] for name in names if name in known), None)
    pool = next((labels[name] for name in POOL_LABELS if labels.get(name)), "" if found is None else found.pool)
    node = labels.get(NODE.label, "") if found is None else found.node
    return {name: value for name, value in ((POOL.label, pool), (NODE.label, node)) if value}


def host_of(instance: str) -> str:
    """Without the port that Prometheus' targets have."""
    host, colon, port = instance.rpartition(":")
    return host.strip("[]") if colon and port.isdigit() and (":" not in host or host.startswith("[")) else instance


def _listed(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name != "alertname")
