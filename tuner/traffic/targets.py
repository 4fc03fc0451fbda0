"""Which engines get the load, and the model that they are asked for.

Guarantee: no address is called but those that were given, or those that the given service names for the given pool; no
proxy of the environment is used, no redirection is followed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from controlplane.client.named_proxy import authorities, unreached
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.engine_address import problem_of
from controlplane.contract.errors import BadSettings, NotFound, Unavailable
from controlplane.contract.host_names import is_loopback

LOOK_S = 5.0
"""How long an engine has to list its models."""


@dataclass(frozen=True)
class PoolTargets:
    """`urls` of a pool's serving engines; `left_out`: the other serving nodes, each with why."""

    urls: tuple[str, ...]
    left_out: tuple[str, ...]


def checked(urls: Sequence[str]) -> list[str]:
    """Without a slash at the end, or the `/v1` that OpenAI's clients want there. Raises BadSettings."""
    for url in urls:
        problem = problem_of(url)
        if problem is not None:
            raise BadSettings(f"target: {url} {problem}", field="target")
    return [url.rstrip("/").removesuffix("/v1") for url in urls]


def targets_of_pool(nodes: Sequence[NodeView], pool: str, server: str) -> PoolTargets:
    """The engines of the pool's serving nodes that can be reached from where the service at `server` is.

    An engine that listens on its own machine's loopback address is reached only where the service is on this machine
    too. Raises NotFound for a pool without serving nodes.
    """
    serving = [node for node in nodes if node.pool == pool and node.role is NodeRole.SERVING]
    if not serving:
        raise NotFound(f"pool {pool!r} has no serving node; give --target URL", field="pool")
    here = server.startswith("unix:") or is_loopback(urlsplit(server).hostname or "")
    problems = {node.node: _problem(node, here) for node in serving}
    return PoolTargets(
        urls=tuple(str(node.engine_url).rstrip("/") for node in serving if not problems[node.node]),
        left_out=tuple(f"{name}: {why}" for name, why in problems.items() if why),
    )


def _problem(node: NodeView, here: bool) -> str:
    if not node.connected:
        return "its agent is not connected"
    if node.engine_url is None:
        return "its agent does not say where its engine listens"
    if not here and is_loopback(urlsplit(node.engine_url).hostname or ""):
        return f"its engine listens at {node.engine_url}, which is another machine's own address; give --target URL"
    return ""


def models_at(url: str, api_key: str | None) -> list[str]:
    """The models that an engine lists at /v1/models. Raises Unavailable, which says why it gave none."""
    headers, trusted = {"Authorization": f"Bearer {api_key}"} if api_key else {}, authorities(url)
    try:
        answer = httpx.get(f"{url}/v1/models", headers=headers, timeout=LOOK_S, verify=trusted, trust_env=False)
        if answer.status_code in {401, 403}:
            raise Unavailable(f"{url} answers {answer.status_code}: give a key that it knows with --api-key-file")
        if not answer.is_success:
            raise Unavailable(f"{url}/v1/models answers {answer.status_code}: is it an OpenAI-compatible engine?")
        return [str(model["id"]) for model in answer.json()["data"]]
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} does not answer: {unreached(error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{url}/v1/models lists no models: is it an OpenAI-compatible engine?") from error


def model_of(served: Mapping[str, Sequence[str]], wanted: str | None) -> str:
    """The model to ask for: the one that is wanted, or the first that all serve. Raises BadSettings."""
    first, *others = served.values()
    common = [model for model in first if all(model in other for other in others)]
    listed = "; ".join(f"{url} serves {', '.join(models) or 'nothing'}" for url, models in served.items())
    if wanted is not None and wanted not in common:
        raise BadSettings(f"model: not every target serves {wanted!r}: {listed}", field="model")
    if not common:
        raise BadSettings(f"model: no model is served by every target: {listed}", field="model")
    return wanted or common[0]
