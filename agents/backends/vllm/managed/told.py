"""What a managed server runs and can be given, as the contract's `EffectiveConfig`."""

from typing import Any

from agents.backends.vllm.managed.server import Server
from agents.backends.vllm.node_file import NodeFile
from controlplane.contract import knobs
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.knobs import KNOBS, ChangeClass


def effective(
    node: NodeFile,
    server: Server,
    followed: EffectiveConfig | None,
    *,
    restart: ChangeClass,
    costs: dict[ChangeClass, ChangeCost],
) -> EffectiveConfig:
    """`followed`: what the server tells as one that is merely followed, None without the plugin.

    `restart` is what a change that needs another process costs here: a swap where a standby fits.
    """
    told = server.told()
    live: list[str] = [] if told is None else told["live"]
    about: dict[str, Any] = {
        "change_classes": {name: ChangeClass.LIVE if name in live else restart for name in KNOBS},
        "live_limits": {} if told is None else {name: most for name, most in told["capacity"].items() if name in live},
        "limits": {**node.limits.model_dump(), **({} if node.speculative else {knobs.NUM_SPECULATIVE_TOKENS: 0})},
        "formats": [one.value for one in node.variants],
        "costs": costs,
    }
    if told is None or followed is None:
        source = f"argument of the running vllm serve, process {server.record.pid}"
        runs = server.record.knobs
        return EffectiveConfig(
            revision=server.record.revision, knobs=runs, sources=dict.fromkeys(runs, source), **about
        )
    variant = f"variants.{server.record.config.quantization.value} of the node file"
    read = followed.sources.get(knobs.QUANTIZATION, "vLLM model_config.quantization")
    return followed.model_copy(
        update={
            **about,
            "knobs": {**followed.knobs, knobs.QUANTIZATION: told["quantization"]},
            "sources": {**followed.sources, knobs.QUANTIZATION: f"{read}; {variant}"},
        }
    )
