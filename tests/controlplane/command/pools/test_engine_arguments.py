"""A configuration as an engine's arguments, and as a patch of the file that holds them."""

import subprocess
from pathlib import Path

import pytest

from controlplane.command.pools.engine_arguments import Engine, arguments, patch
from controlplane.contract.knobs import EngineConfig

KNOBS = {"max_num_batched_tokens": 2048, "max_num_seqs": 64, "prefill_chunk_size": 0, "num_speculative_tokens": 4}


def test_arguments_are_the_engines_own() -> None:
    assert arguments(KNOBS, Engine.VLLM) == [
        *("--max-num-batched-tokens", "2048", "--max-num-seqs", "64"),
        *("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'),
    ]
    config = EngineConfig().knobs()
    assert arguments(config, Engine.EMBEDDED)[:2] == [
        "--set",
        f"max_num_batched_tokens={config['max_num_batched_tokens']}",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("vllm serve m --max-num-seqs 256 --port 8000", "vllm serve m --max-num-seqs 64 --port 8000"),
        ("--max-num-seqs=256", "--max-num-seqs=64"),
        ('["--max-num-seqs", "256"]', '["--max-num-seqs", "64"]'),
        ("  - --max-num-seqs\n  - '256'", "  - --max-num-seqs\n  - '64'"),
        ("tailwright engine --set max_num_seqs=256", "tailwright engine --set max_num_seqs=64"),
        ("max_num_seqs: 256", "max_num_seqs: 64"),
        ("""--speculative-config '{"method": "eagle", "num_speculative_tokens": 2}'""",
         """--speculative-config '{"method": "eagle", "num_speculative_tokens": 4}'"""),
    ],
)  # fmt: skip
def test_a_patch_that_patch_applies_changes_the_value_alone(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text(f"first: 256\n{before}\nlast: 256\n")
    found, _ = patch(file.read_text(), "deploy.yaml", KNOBS)
    subprocess.run(["git", "apply", "-"], input=found, text=True, cwd=tmp_path, check=True)
    assert file.read_text() == f"first: 256\n{after}\nlast: 256\n"
    assert patch(file.read_text(), "deploy.yaml", KNOBS)[0] == ""


def test_what_a_file_does_not_name_is_told() -> None:
    assert patch("max_num_seqs: 64\n", "x", KNOBS) == (
        "",
        ["max_num_batched_tokens", "num_speculative_tokens", "prefill_chunk_size"],
    )
