"""The fleet: what every node truly runs."""

from controlplane.client import Client
from controlplane.contract.knobs import KNOBS
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection


def fleet(client: Client, selection: Selection) -> Context:
    nodes = [node for node in client.nodes() if selection.pool in (None, node.pool)]
    return {"nodes": nodes, "knobs": list(KNOBS)}


FLEET = Part("fleet", fleet)
PAGE = Page("fleet", "/fleet", "Fleet", (FLEET,), key="f")
