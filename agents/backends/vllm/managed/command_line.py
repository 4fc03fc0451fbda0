"""How `vllm serve` is started for a configuration. Pure: no I/O.

Guarantee: with the plugin, limits are started at the node's capacity, or higher where the configuration wants more, so
that what it wants runs at once and most later wishes need no restart. Without it they are started as wanted exactly.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.backends.vllm.declared_flags import flags_of
from agents.backends.vllm.node_file import OWN_VARIABLES, Capacity, NodeFile
from controlplane.contract.knobs import EngineConfig, largest

FOLDER_VARIABLE = "TAILWRIGHT_VLLM_DIR"
"""That of tailwright_vllm/folder.py."""
TELL_VARIABLE = "TAILWRIGHT_VLLM_TELL"
"""That of tailwright_vllm/further/started_arguments.py."""
SCHEDULER_CLASS = "tailwright_vllm.scheduler.live_scheduler"
SERVER_HOST = "127.0.0.1"
_OF_THE_AGENTS_PYTHON = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"}
"""Variables that would lead vLLM's Python astray."""


@dataclass(frozen=True)
class Command:
    """What to run, and in which environment (the whole of it)."""

    argv: list[str]
    environment: dict[str, str]


def command(
    node: NodeFile, config: EngineConfig, *, port: int, folder: Path, plugin: bool, inherited: Mapping[str, str]
) -> Command:
    """The command for `config`, which the node must not refuse (`NodeFile.refusal`)."""
    variant = node.variants[config.quantization]
    started = started_capacity(node, config, plugin=plugin)
    argv = [*node.executable, "serve", variant.model, "--served-model-name", node.served_model_name]
    argv += ["--host", SERVER_HOST, "--port", str(port)]
    if node.server_ca_file is not None:
        argv += ["--ssl-certfile", str(node.tls_cert), "--ssl-keyfile", str(node.tls_key), "--enable-ssl-refresh"]
    argv += ["--max-num-batched-tokens", str(started.max_num_batched_tokens)]
    argv += ["--max-num-seqs", str(started.max_num_seqs)]
    if plugin:
        argv += ["--scheduler-cls", SCHEDULER_CLASS]
    elif config.prefill_chunk_size:
        argv += ["--long-prefill-token-threshold", str(config.prefill_chunk_size)]
    if started.num_speculative_tokens:
        speculative = {**node.speculative, "num_speculative_tokens": started.num_speculative_tokens}
        argv += ["--speculative-config", json.dumps(speculative)]
    argv += flags_of(config.knobs(), node.knobs)
    left_out = _OF_THE_AGENTS_PYTHON | {name for name in inherited if name.startswith(OWN_VARIABLES)}
    handed_on = {name: value for name, value in inherited.items() if name not in left_out}
    environment = {**handed_on, **node.environment, **variant.environment, FOLDER_VARIABLE: str(folder)}
    if node.knobs:
        environment[TELL_VARIABLE] = ",".join(own.argument for own in node.knobs.values())
    return Command([*argv, *node.arguments, *variant.arguments], environment)


def started_capacity(node: NodeFile, config: EngineConfig, *, plugin: bool) -> Capacity:
    """The limits that vLLM is started with. vLLM wants at least as many tokens as sequences in a step."""
    least = node.capacity
    tokens, seqs, drafts = config.max_num_batched_tokens, config.max_num_seqs, largest(config.num_speculative_tokens)
    if plugin:
        tokens, seqs = max(tokens, least.max_num_batched_tokens), max(seqs, least.max_num_seqs)
        tokens, drafts = max(tokens, seqs), max(drafts, least.num_speculative_tokens)
    return Capacity(max_num_batched_tokens=tokens, max_num_seqs=seqs, num_speculative_tokens=drafts)
