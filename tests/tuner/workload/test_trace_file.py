"""Files of traffic are recognised, and read by their tools' own fields; what holds no arrivals is refused by name."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from controlplane.contract.bodies.workload import WorkloadFormat
from controlplane.contract.errors import BadRequest
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.trace import save
from tuner.workload.trace_file import load_as

MADE = generate(fitted(CONV, max_input=512, max_output=64), seed=1, rate_per_s=5, requests=20)
START_S = 1_760_000_000.0


def guidellm(*benchmarks: list[dict[str, Any]]) -> dict[str, Any]:
    """A report as GuideLLM 0.8.1 saves it, less what is of no interest here."""
    told = [
        {
            "type_": "generative_benchmark",
            "requests": {"successful": one, "incomplete": [], "errored": [{"request_start_time": START_S}]},
        }
        for one in benchmarks
    ]
    return {"metadata": {"version": 1, "guidellm_version": "0.8.1"}, "config": {}, "benchmarks": told}


def stats(at_s: float, prompt: int, output: int) -> dict[str, Any]:
    return {
        "type_": "generative_request_stats",
        "request_start_time": START_S + at_s,
        "prompt_tokens": prompt,
        "output_tokens": output,
    }


def record(at_s: float, prompt: int, output: int, **about: Any) -> str:
    """A line of AIPerf's profile_export.jsonl (0.13.0)."""
    metadata = {"session_num": 0, "request_start_ns": int((START_S + at_s) * 1e9), "benchmark_phase": "profiling"}
    metrics = {
        "input_sequence_length": {"value": prompt, "unit": "tokens"},
        "output_sequence_length": {"value": output, "unit": "tokens"},
    }
    return json.dumps({"metadata": metadata | about, "metrics": metrics, "error": about.get("error")})


def lines(*records: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, records))


TURNS = lines(
    {"session_id": "a", "timestamp": 1000, "input_length": 700, "output_length": 20, "hash_ids": [4, 5]},
    {"session_id": "b", "timestamp": 1500, "input_length": 100, "output_length": 30},
    {"session_id": "a", "delay": 2000, "input_length": 1300, "output_length": 10, "hash_ids": [4, 5, 6]},
)
READ = {
    "benchmarks.json": (json.dumps(guidellm([stats(1, 90, 8), stats(0, 40, 4)]), indent=1), None, "guidellm"),
    "seconds.jsonl": (
        lines(*({"timestamp": at, "input_length": size, "output_length": 4} for at, size in ((5.0, 40), (6.0, 90)))),
        WorkloadFormat.GUIDELLM,
        "guidellm",
    ),
    "profile_export.jsonl": (
        "\n".join(
            [
                record(-3, 9, 9, benchmark_phase="warmup"),
                record(0, 40, 4),
                record(1, 90, 8),
                record(2, 7, 7, error={"code": 500}),
                record(3, 7, 7, was_cancelled=True),
            ]
        ),
        None,
        "aiperf",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_a_benchmark_sent_is_read_from_its_first_arrival(name: str, tmp_path: Path) -> None:
    text, kind, found_as = READ[name]
    (tmp_path / name).write_text(text)
    found, read_as = load_as(tmp_path / name, kind)
    assert read_as == found_as
    assert [(one.timestamp, one.input_length) for one in found.requests] == [(0.0, 40), (1000.0, 90)]


def test_turns_of_a_session_follow_by_their_delay_and_share_their_blocks(tmp_path: Path) -> None:
    (tmp_path / "turns.jsonl").write_text(TURNS)
    found, kind = load_as(tmp_path / "turns.jsonl")
    assert kind == "aiperf" and found.block_size == 512
    told = [(one.timestamp, one.input_length, one.hash_ids) for one in found.requests]
    assert told == [(0.0, 700, [4]), (500.0, 100, []), (2000.0, 1300, [4, 5])]


@pytest.mark.parametrize(("suffix", "kind"), [(".jsonl", "mooncake"), (".json", "own")])
def test_our_own_files_are_recognised_whatever_they_are_called(suffix: str, kind: str, tmp_path: Path) -> None:
    save(MADE, tmp_path / f"made{suffix}")
    renamed = (tmp_path / f"made{suffix}").rename(tmp_path / "traffic.txt")
    found, read_as = load_as(renamed)
    assert read_as == kind and found.requests == MADE.requests


def test_real_azure_is_recognised(azure: Path) -> None:
    found, kind = load_as(azure / "AzureLLMInferenceTrace_code.csv")
    assert kind == "azure" and len(found.requests) == 8819


AZURES = {
    "quoted": ('"TIMESTAMP","ContextTokens","GeneratedTokens"', "2023-11-16 18:15:46", "2023-11-16 18:15:46.5"),
    "2024's": ("TIMESTAMP,ContextTokens,GeneratedTokens", "2024-05-10 00:00:00+00:00", "2024-05-10 00:00:00.5+00:00"),
    "of two zones": ("TIMESTAMP,ContextTokens,GeneratedTokens", "2024-05-10T02:00:00+02:00", "2024-05-10T00:00:00.5Z"),
}


@pytest.mark.parametrize("name", AZURES)
def test_azures_columns_with_other_habits_of_writing(name: str, tmp_path: Path) -> None:
    head, *times = AZURES[name]
    (tmp_path / "trace.csv").write_text("\r\n".join([head, *(f"{at},{place},5" for place, at in enumerate(times, 8))]))
    found, kind = load_as(tmp_path / "trace.csv")
    assert kind == "azure"
    assert [(one.timestamp, one.input_length) for one in found.requests] == [(0.0, 8), (500.0, 9)]


def test_our_own_are_put_in_order(tmp_path: Path) -> None:
    """What is cut from them, and kept, begins with the first arrival."""
    shuffled = MADE.model_copy(update={"requests": MADE.requests[::-1]})
    save(shuffled, tmp_path / "made.json")
    assert load_as(tmp_path / "made.json")[0].requests == MADE.requests


def test_of_a_report_with_several_benchmarks_one_is_said(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.json"
    file.write_text(json.dumps(guidellm([stats(0, 40, 4)], [stats(0, 50, 4), stats(2, 60, 4)])))
    with pytest.raises(BadRequest, match=r"has 2, each of other traffic; say which, --part 1 to 2"):
        load_as(file)
    assert [one.input_length for one in load_as(file, part=2)[0].requests] == [50, 60]
    with pytest.raises(BadRequest, match="benchmarks 1 to 2, got 3"):
        load_as(file, part=3)


MOONCAKE = '{"timestamp": 5, "input_length": 600, "output_length": 3}'
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.0319600,3180,8\n"
REFUSED = {
    "a dataset of prompts": ('{"prompt": "hello", "output_tokens_count": 5}', None, "not recognised as traffic"),
    "the same, said to be GuideLLM's": ('{"prompt": "hello"}', WorkloadFormat.GUIDELLM, "line 1: no timestamp"),
    "AIPerf's aggregate": ('{"request_throughput": {"avg": 3.2}}', None, "Aggregates and datasets"),
    "AIPerf's single turns": ('{"text": "hi", "timestamp": 0}', None, "line 1: text tells no length in tokens"),
    "AIPerf's conversations": ('{"session_id": "a", "turns": [{"text": "hi"}]}', None, "turns tells no length"),
    "a first turn without a time": ('{"session_id": "a", "input_length": 4, "delay": 5}', None, "line 1: no timestamp"),
    "a delay that is a word": (
        '{"session_id": "a", "timestamp": 0, "input_length": 4, "output_length": 1}\n'
        '{"session_id": "a", "input_length": 4, "output_length": 1, "delay": "soon"}',
        None,
        "line 2: delay: wants milliseconds",
    ),
    "a run without lengths": (
        '{"metadata": {"request_start_ns": 5}, "metrics": {}}',
        None,
        "line 1: no AIPerf record with request_start_ns",
    ),
    "a report that kept no requests": (json.dumps(guidellm([])), None, "no request with an arrival"),
    "a report of another version": ('{"benchmarks": [{"runs": 3}]}', None, r"benchmarks\[0\].requests.successful"),
    "half a token": (json.dumps(guidellm([stats(0, 3, 1) | {"prompt_tokens": 2.5}])), None, "whole tokens"),
    "an arrival without end": (
        '{"timestamp": Infinity, "input_length": 4, "output_length": 1}',
        None,
        r"line 1: not a Mooncake request \(timestamp: Input should be less than or equal to 10{14}\)",
    ),
    "an arrival beyond all calendars": (
        '{"timestamp": 1e300, "input_length": 4, "output_length": 1}',
        None,
        r"line 1: not a Mooncake request \(timestamp: Input should be less than or equal to 10{14}\)",
    ),
    "GuideLLM's without end": (
        json.dumps(guidellm([stats(float("inf"), 3, 1)])),
        None,
        r"successful\[0\]: wants a time and whole tokens",
    ),
    "fewer tokens than none": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,3,-5",
        None,
        r"line 2: not an Azure request \(GeneratedTokens: wants a whole number of tokens, got '-5'\)",
    ),
    "our own, less its pool": ('{"requests": [], "start": 0}', None, "pool: Field required"),
    "nothing": ("", None, "file: is empty"),
    "blank lines": (" \n\n", WorkloadFormat.MOONCAKE, "file: is empty"),
    "nested a hundred thousand times": ("[" * 100_000, None, "not recognised as traffic"),
    "the same, said to be AIPerf's": ("[" * 100_000, WorkloadFormat.AIPERF, "line 1: no JSON"),
    "the same, said to be ours": ("[" * 100_000, WorkloadFormat.OWN, "file: Invalid JSON"),
    "a list in place of a request": (f"{MOONCAKE}\n[1]", None, r"line 2: not a Mooncake request \(no JSON object\)"),
    "endless tokens": (
        MOONCAKE.replace("600", "Infinity"),
        None,
        r"line 1: .*\(input_length: Input should be a finite",
    ),
    "an arrival that never comes": (
        MOONCAKE.replace("5", "Infinity"),
        None,
        r"line 1: .*\(timestamp: Input should be l",
    ),
    "an arrival in a far millennium": (
        MOONCAKE.replace("5", "1e300"),
        None,
        r"line 1: .*\(timestamp: Input should be l",
    ),
    "no answer's length": (MOONCAKE.replace("output", "out"), None, r"line 1: .*\(output_length is missing\)"),
    "blocks of less than nothing": (MOONCAKE.replace("{", '{"block_size": -4, '), None, r"\(block_size: wants a whole"),
    "a session that is a list": (
        MOONCAKE.replace("{", '{"session_id": [1], '),
        None,
        "line 1: session_id: wants a name",
    ),
    "a report of endless time": (
        json.dumps(guidellm([stats(math.inf, 3, 1)])),
        None,
        r"successful\[0\]: wants a time and",
    ),
    "an answer of less than nothing": (AZURE.replace(",8", ",-8"), None, r"line 2: .*\(GeneratedTokens: .* got '-8'\)"),
    "half a token in a CSV": (AZURE.replace("3180", "3180.5"), None, r"line 2: .*\(ContextTokens: .* got '3180.5'\)"),
    "a day that is a word": (
        AZURE.replace("2023-11-16", "noon"),
        None,
        r"line 2: .*\(TIMESTAMP: wants a time such as 2",
    ),
    "half a line": (
        AZURE.replace(",8", ""),
        None,
        r"line 2: .*\(GeneratedTokens: wants a whole number of tokens, got None",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_arrivals_or_lengths_is_refused_by_name(name: str, tmp_path: Path) -> None:
    text, kind, why = REFUSED[name]
    (tmp_path / "file").write_text(text)
    with pytest.raises(BadRequest, match=why):
        load_as(tmp_path / "file", kind)


def test_no_text_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(AZURE.encode("utf-16"))
    with pytest.raises(BadRequest, match="file: no text in UTF-8; save it as that"):
        load_as(tmp_path / "file")


@pytest.mark.parametrize(("end", "encoding"), [("\r\n", "utf-8"), ("\n", "utf-8-sig")], ids=["crlf", "bom"])
def test_what_a_spreadsheet_writes_is_read(end: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(AZURE.replace("\n", end).encode(encoding))
    found, kind = load_as(tmp_path / "file")
    assert kind is WorkloadFormat.AZURE and found.requests[0].input_length == 3180
