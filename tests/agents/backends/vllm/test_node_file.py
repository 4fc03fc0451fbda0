"""A node file that loads can be run; a wrong one is refused by file, field and mend."""

from pathlib import Path

import pytest

from agents.backends.vllm.further_knobs import FURTHER
from agents.backends.vllm.node_file import load_node_file
from controlplane.contract.errors import BadSettings
from controlplane.contract.knobs import EngineConfig, Quantization
from controlplane.contract.reports.declared_knobs import MOST_DECLARED
from controlplane.serving.tls import TlsFiles

EXAMPLE = Path(__file__).resolve().parents[4] / "deploy/vllm/node.toml"
GOOD = """
executable = "bin/vllm"
served_model_name = "m"
[variants.none]
model = "model"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/vllm").write_text("#!/bin/sh\n")
    (tmp_path / "bin/vllm").chmod(0o755)
    (tmp_path / "model").mkdir()
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_the_example_loads(folder: Path) -> None:
    text = EXAMPLE.read_text().replace("/opt/vllm/bin/vllm", str(folder / "bin/vllm"))
    node = load_node_file(write(folder, text))
    assert node.initial_config == EngineConfig(max_num_batched_tokens=2048, max_num_seqs=128)
    assert node.limits.max_num_seqs == 512


def test_every_field_stands_in_the_example() -> None:
    from agents.backends.vllm.node_file import Capacity, Limits, NodeFile, Variant

    text = EXAMPLE.read_text()
    for table in (NodeFile, Variant, Capacity, Limits):
        for name in table.model_fields:
            assert name in text, f"{name} is missing in {EXAMPLE.name}"


def test_paths_are_relative_to_the_file(folder: Path) -> None:
    files = 'tls_cert = "proxy.pem"\ntls_key = "keys/proxy.key"\n'
    text = files + GOOD + '[variants.int8]\nmodel = "someone/model-int8"\n[variants.fp8]\nmodel = "./not-there"\n'
    node = load_node_file(write(folder, text))
    assert node.executable == [str(folder / "bin/vllm")]
    assert node.variants[Quantization.NONE].model == str(folder / "model")
    assert node.variants[Quantization.INT8].model == "someone/model-int8"
    assert node.variants[Quantization.FP8].model == str(folder / "not-there")
    assert node.folder == folder
    assert node.tls == TlsFiles(folder / "proxy.pem", folder / "keys/proxy.key")


def test_the_first_variant_is_what_runs_at_first(folder: Path) -> None:
    text = GOOD.replace("variants.none", "variants.int8") + '[variants.none]\nmodel = "model"\n'
    assert load_node_file(write(folder, text)).initial_config.quantization is Quantization.INT8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "executable: is needed"),
        (GOOD.replace("bin/vllm", "bin/none"), "executable: bin/none is no program"),
        (GOOD.replace("bin/vllm", "no-such-program-anywhere"), "executable: no-such-program-anywhere is no program"),
        ("prot = 1\n" + GOOD, "prot: no such field, did you mean 'port'?"),
        (GOOD + "arguments_ = []\n", "variants.none.arguments_: no such field, did you mean 'arguments'?"),
        (GOOD.replace("variants.none", "variants.int3"), "variants.int3"),
        ("port = 8001\n" + GOOD, "port and the two server_ports must differ"),
        (
            'arguments = ["--max-num-seqs", "4"]\n' + GOOD,
            "arguments: --max-num-seqs is the agent's to set; set capacity",
        ),
        ('arguments = ["--max_num_seqs=4"]\n' + GOOD, "arguments: --max_num_seqs is the agent's to set"),
        (
            'arguments = ["--speculative-config.method=ngram"]\n' + GOOD,
            "is the agent's to set; set the table [speculative]",
        ),
        ('arguments = ["-q", "fp8"]\n' + GOOD, "arguments: -q is the agent's to set; set it in variants"),
        (GOOD + 'arguments = ["--port", "1"]\n', "variants.none.arguments: --port is the agent's to set"),
        (
            'environment = { TAILWRIGHT_VLLM_DIR = "/x" }\n' + GOOD,
            "environment: TAILWRIGHT_VLLM_DIR is the agent's own",
        ),
        (GOOD + "[capacity]\nmax_num_seqs = 9\n[limits]\nmax_num_seqs = 8\n", "capacity.max_num_seqs: 9 is above"),
        (GOOD + "[capacity]\nnum_speculative_tokens = 4\n", "wants a table [speculative]"),
        (GOOD + "[speculative]\nprompt_lookup_max = 4\n", "speculative: names neither a method"),
        (GOOD + '[speculative]\nmethod = "ngram"\nnum_speculative_tokens = 4\n', "num_speculative_tokens is a knob"),
        (GOOD + "[initial]\nmax_num_seq = 4\n", "initial: max_num_seq: no such knob, did you mean 'max_num_seqs'?"),
        (
            GOOD + "[initial]\nmax_num_seqs = 40\n[limits]\nmax_num_seqs = 8\n[capacity]\nmax_num_seqs = 8\n",
            "initial.max",
        ),
        (
            GOOD + "[initial]\nnum_speculative_tokens = 4\n",
            "initial.num_speculative_tokens: the node file has no table",
        ),
        (GOOD + '[initial]\nquantization = "fp8"\n', "initial.quantization: fp8 has no variant"),
        ("standby = 'perhaps'\n" + GOOD, "standby"),
        ('host = "0.0.0.0"\n' + GOOD, "host: 0.0.0.0 is reached from other machines"),
        ('tls_cert = "proxy.pem"\n' + GOOD, "tls_key: tls_cert and tls_key go together"),
        ('server_ca_file = "ca.pem"\n' + GOOD, "server_ca_file wants tls_cert and tls_key"),
        (
            'tls_cert = "proxy.pem"\ntls_key = "proxy.key"\nserver_ca_file = "none.pem"\n' + GOOD,
            "none.pem cannot be used",
        ),
        ('arguments = ["--ssl-certfile=x"]\n' + GOOD, "is the agent's to set; set tls_cert and server_ca_file"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_mistake_is_named(folder: Path, text: str, said: str) -> None:
    path = write(folder, text)
    with pytest.raises(BadSettings) as caught:
        load_node_file(path)
    assert said in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.detail["field"]


@pytest.mark.parametrize(("count", "loads"), [(MOST_DECLARED - len(FURTHER), True), (MOST_DECLARED, False)])
def test_its_knobs_leave_place_for_what_the_plugin_moves(folder: Path, count: int, loads: bool) -> None:
    knobs = [f'[knobs.k{number}]\nflag = "--k{number}"\nvalues = [1, 2]\nstart = 1\n' for number in range(count)]
    path = write(folder, GOOD + "".join(knobs))
    if loads:
        assert len(load_node_file(path).knobs) == count
    else:
        with pytest.raises(BadSettings, match=f"knobs.*at most {MOST_DECLARED - len(FURTHER)}"):
            load_node_file(path)


def test_what_a_node_can_never_run_is_told_by_knob(folder: Path) -> None:
    node = load_node_file(write(folder, GOOD + "[capacity]\nmax_num_seqs = 8\n[limits]\nmax_num_seqs = 8\n"))
    assert node.refusal(EngineConfig(max_num_seqs=8)) is None
    for config, knob in (
        (EngineConfig(max_num_seqs=9), "max_num_seqs"),
        (EngineConfig(max_num_seqs=8, quantization=Quantization.FP8), "quantization"),
        (EngineConfig(max_num_seqs=8, num_speculative_tokens=1), "num_speculative_tokens"),
        (EngineConfig(max_num_seqs=8, num_speculative_tokens=((4, 2),)), "num_speculative_tokens"),
    ):
        problem = node.refusal(config)
        assert problem is not None and problem[0] == knob
