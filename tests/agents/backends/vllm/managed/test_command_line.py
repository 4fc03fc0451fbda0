"""The command line starts vLLM for what is wanted, with room above it."""

import json
from pathlib import Path

import pytest

from agents.backends.vllm.managed.command_line import Command, command
from agents.backends.vllm.node_file import NodeFile
from controlplane.contract.knobs import EngineConfig, Quantization

NODE = NodeFile.model_validate(
    {
        "executable": ["/env/bin/vllm"],
        "served_model_name": "m",
        "arguments": ["--max-model-len", "1024"],
        "environment": {"A": "node", "B": "node"},
        "variants": {
            "none": {"model": "/models/m"},
            "int8": {"model": "/models/m8", "arguments": ["--quantization", "x"], "environment": {"B": "variant"}},
        },
        "capacity": {"max_num_batched_tokens": 1024, "max_num_seqs": 16, "num_speculative_tokens": 4},
        "speculative": {"method": "ngram", "prompt_lookup_max": 4},
    }
)


def made(config: EngineConfig, *, plugin: bool = True) -> Command:
    inherited = {"PATH": "/bin", "A": "inherited", "TAILWRIGHT_ENROLMENT_TOKEN": "secret", "PYTHONPATH": "/agent"}
    return command(NODE, config, port=8001, folder=Path("/run/s"), plugin=plugin, inherited=inherited)


def value(argv: list[str], flag: str) -> str:
    assert argv.count(flag) == 1
    return argv[argv.index(flag) + 1]


def test_below_the_capacity_vllm_starts_with_the_capacity() -> None:
    argv = made(EngineConfig(max_num_batched_tokens=256, max_num_seqs=2)).argv
    assert argv[:3] == ["/env/bin/vllm", "serve", "/models/m"]
    assert value(argv, "--max-num-batched-tokens") == "1024"
    assert value(argv, "--max-num-seqs") == "16"
    assert value(argv, "--port") == "8001"
    assert value(argv, "--served-model-name") == "m"
    assert value(argv, "--scheduler-cls") == "tailwright_vllm.scheduler.live_scheduler"
    assert value(argv, "--max-model-len") == "1024"
    assert json.loads(value(argv, "--speculative-config")) == {
        "method": "ngram",
        "prompt_lookup_max": 4,
        "num_speculative_tokens": 4,
    }


def test_vllm_serves_by_tls_where_the_node_file_says_whom_to_believe() -> None:
    assert not [word for word in made(EngineConfig()).argv if word.startswith(("--ssl", "--enable-ssl"))]
    files = {"tls_cert": Path("/tls/n.pem"), "tls_key": Path("/tls/n.key"), "server_ca_file": Path("/tls/ca.pem")}
    node = NODE.model_copy(update=files)
    argv = command(node, EngineConfig(), port=8001, folder=Path("/run/s"), plugin=True, inherited={}).argv
    assert (value(argv, "--ssl-certfile"), value(argv, "--ssl-keyfile")) == ("/tls/n.pem", "/tls/n.key")
    assert "--enable-ssl-refresh" in argv
    assert not [word for word in argv if "ca.pem" in word], "it asks its clients for no certificate"


def test_above_it_with_what_is_wanted() -> None:
    config = EngineConfig(max_num_batched_tokens=4096, max_num_seqs=32, num_speculative_tokens=((4, 8), (16, 2)))
    argv = made(config).argv
    assert value(argv, "--max-num-batched-tokens") == "4096"
    assert value(argv, "--max-num-seqs") == "32"
    assert json.loads(value(argv, "--speculative-config"))["num_speculative_tokens"] == 8


def test_a_step_has_room_for_a_token_of_every_sequence() -> None:
    assert value(made(EngineConfig(max_num_seqs=2000)).argv, "--max-num-batched-tokens") == "2000"


def test_without_the_plugin_vllm_starts_as_wanted_exactly() -> None:
    config = EngineConfig(max_num_batched_tokens=256, max_num_seqs=2, prefill_chunk_size=64)
    argv = made(config, plugin=False).argv
    assert value(argv, "--max-num-batched-tokens") == "256"
    assert value(argv, "--max-num-seqs") == "2"
    assert value(argv, "--long-prefill-token-threshold") == "64"
    assert "--scheduler-cls" not in argv
    assert "--speculative-config" not in argv


@pytest.mark.parametrize("quantization", [Quantization.NONE, Quantization.INT8])
def test_a_variant_brings_its_model_arguments_and_environment(quantization: Quantization) -> None:
    found = made(EngineConfig(quantization=quantization))
    other = quantization is Quantization.INT8
    assert found.argv[2] == ("/models/m8" if other else "/models/m")
    assert ("--quantization" in found.argv) is other
    assert found.environment["B"] == ("variant" if other else "node")


def test_the_servers_environment_has_none_of_the_agents_secrets() -> None:
    environment = made(EngineConfig()).environment
    assert environment == {"PATH": "/bin", "A": "node", "B": "node", "TAILWRIGHT_VLLM_DIR": "/run/s"}
