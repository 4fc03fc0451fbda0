"""Traces are read and written without loss, and mistakes are named."""

from pathlib import Path

import pytest

from controlplane.contract.errors import BadRequest
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.rescale import cut, scale_lengths, scale_rate
from tuner.workload.trace import read_azure, read_mooncake, save, write_mooncake
from tuner.workload.trace_file import load

SMALL = fitted(CONV, max_input=512, max_output=64)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    workload = generate(SMALL, seed=1, rate_per_s=5, requests=50)
    save(workload, tmp_path / f"w{suffix}")
    read = load(tmp_path / f"w{suffix}")
    assert read.requests == workload.requests
    assert read.block_size == workload.block_size


def test_mooncake_partial_block_gets_an_id_on_the_way_out_only() -> None:
    workload = generate(SMALL, seed=1, rate_per_s=5, requests=20)
    for request, line in zip(workload.requests, write_mooncake(workload), strict=True):
        assert len(read_mooncake([line]).requests[0].hash_ids) == request.input_length // 16
        assert line.count(",") - 4 == max(0, -(-request.input_length // 16) - 1)


def test_a_malformed_line_is_named() -> None:
    with pytest.raises(BadRequest, match="line 2"):
        read_mooncake(['{"timestamp": 0, "input_length": 4, "output_length": 1}', '{"timestamp": 0}'])
    with pytest.raises(BadRequest, match="GeneratedTokens"):
        read_azure(["TIMESTAMP,ContextTokens", "x,1"])
    with pytest.raises(BadRequest, match="line 2"):
        read_azure(["TIMESTAMP,ContextTokens,GeneratedTokens", "yesterday,1,2"])


def test_real_mooncake(mooncake: Path) -> None:
    workload = load(mooncake / "conversation_trace.jsonl")
    assert len(workload.requests) == 12031 and workload.block_size == 512
    assert all(len(request.hash_ids) == request.input_length // 512 for request in workload.requests)
    small = scale_lengths(cut(workload, 0, 500), max_input=1024, max_output=64, max_total=1024)
    assert max(request.input_length + request.output_length for request in small.requests) <= 1024


@pytest.mark.slow
def test_real_azure(azure: Path) -> None:
    workload = load(azure / "AzureLLMInferenceTrace_conv.csv")
    assert len(workload.requests) == 19366
    assert workload.requests[0].timestamp == 0 and workload.requests[0].input_length == 374
    again = read_mooncake(write_mooncake(workload))
    assert [request.timestamp for request in again.requests] == [request.timestamp for request in workload.requests]


def test_scaling_keeps_sharing_and_the_shape_of_gaps() -> None:
    workload = generate(SMALL, seed=2, rate_per_s=5, requests=60)
    faster = scale_rate(workload, 2.0)
    assert faster.requests[-1].timestamp == pytest.approx(workload.requests[-1].timestamp / 2)
    small = scale_lengths(workload, max_input=128, max_output=16)
    assert max(request.input_length for request in small.requests) <= 128
    for index, one in enumerate(workload.requests[:20]):
        for other_index in range(index):
            shared = one.hash_ids[:1] == workload.requests[other_index].hash_ids[:1] != []
            a, b = small.requests[index].hash_ids, small.requests[other_index].hash_ids
            if a and b and a[0] == b[0]:
                assert shared
