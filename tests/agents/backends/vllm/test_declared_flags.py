"""Which of vLLM's flags may be knobs, and how they reach its command line."""

import pytest

from agents.backends.vllm.declared_flags import DeclaredFlag, flags_of, refusal

HARMLESS = (
    *("--block-size", "--kv-cache-dtype", "--gpu-memory-utilization", "--tensor-parallel-size", "--max-model-len"),
    *("--max-cudagraph-capture-size", "--enable-prefix-caching", "--enforce-eager", "--watermark", "--stream-interval"),
    *("--prefill-schedule-interval", "--max-num-queued-reqs", "--num-gpu-blocks-override", "--performance-mode"),
)


@pytest.mark.parametrize("flag", HARMLESS)
def test_numbers_switches_and_words_of_the_engine_may_be_declared(flag: str) -> None:
    assert refusal(flag) == ""


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--host", "is the agent's to set"),
        ("--max-num-seqs", "is the agent's to set"),
        ("--quantization", "is the agent's to set"),
        ("--hos", "may be read as --host"),
        ("--max-num-seq", "may be read as --max-num-seqs"),
        ("--data-parallel-rpc-port", "'port' in it opens a way in"),
        ("--data-parallel-rpc-po", "opens a way in"),
        ("--allowed-origins", "opens a way in"),
        ("--enable-sleep-mode", "opens a way in"),
        ("--trust-remote-code", "loads code"),
        ("--trust-re", "loads code"),
        ("--worker-cls", "loads code"),
        ("--worker-extension-cls", "loads code"),
        ("--tool-parser-plugin", "loads code"),
        ("--distributed-executor-backend", "loads code"),
        ("--tokenizer", "loads code"),
        ("--chat-template", "loads code"),
        ("--load-format", "names a file, or another model"),
        ("--spec-mode", "names a file, or another model"),
        ("--download-dir", "names a file, or another model"),
        ("--kv-transfer-config", "names a file, or another model"),
        ("--api-key", "reads a secret, or shows what people asked"),
        ("--enable-log-requests", "reads a secret, or shows what people asked"),
        ("--otlp-traces-endpoint", "'endpoint' in it opens a way in"),
        ("--no-enable-prefix-caching", "declare --enable-prefix-caching"),
        ("-O", "no flag of vLLM's"),
        ("--block_size", "no flag of vLLM's"),
        ("--block-size=16", "no flag of vLLM's"),
        ("--block-size 16 --host", "no flag of vLLM's"),
        ("--", "no flag of vLLM's"),
    ],
)
def test_what_opens_loads_names_or_reads_may_not(flag: str, why: str) -> None:
    assert why in refusal(flag)
    with pytest.raises(ValueError, match="flag"):
        DeclaredFlag.model_validate({"flag": flag, "values": [1, 2], "start": 1})


def declared(flag: str, start: object, **range_: object) -> DeclaredFlag:
    return DeclaredFlag.model_validate({"flag": flag, "start": start, "class": "restart", **range_})


FLAGS = {
    "block_size": declared("--block-size", 16, values=[16, 32]),
    "eager": declared("--enforce-eager", False, values=[False, True]),
    "share": declared("--gpu-memory-utilization", 0.9, minimum=0.5, maximum=0.95),
    "kv": declared("--kv-cache-dtype", "auto", values=["auto", "fp8"]),
    "length": declared("--max-model-len", -1, values=[-1, 2048]),
}


def test_each_is_written_as_vllm_reads_it() -> None:
    start = "--block-size 16 --no-enforce-eager --gpu-memory-utilization 0.9 --kv-cache-dtype auto --max-model-len=-1"
    assert flags_of({}, FLAGS) == start.split()
    wanted = {"block_size": 32, "eager": True, "share": 0.5, "kv": "fp8", "length": 2048, "max_num_seqs": 8}
    moved = "--block-size 32 --enforce-eager --gpu-memory-utilization 0.5 --kv-cache-dtype fp8 --max-model-len 2048"
    assert flags_of(wanted, FLAGS) == moved.split()


def test_what_is_not_said_of_it_is_its_flag() -> None:
    assert FLAGS["block_size"].as_knob(FLAGS["block_size"].change).help == "vLLM's --block-size."
    assert FLAGS["block_size"].argument == "block_size"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"values": [32]}, "start: 16 is not one of 32"),
        ({"values": [16, "--host"]}, "pattern"),
        ({"values": [16, "/etc/passwd"]}, "pattern"),
        ({}, "give either values, or minimum and maximum"),
        ({"values": [16], "class": "swap"}, "restart, or live"),
        ({"values": [16], "clas": "live"}, "clas"),
    ],
)
def test_a_table_that_is_no_knob_is_refused(table: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DeclaredFlag.model_validate({"flag": "--block-size", "start": 16, **table})
