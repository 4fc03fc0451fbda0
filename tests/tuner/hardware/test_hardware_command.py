"""`tailwright hardware` as it is typed: a table, JSON, a pool's own traffic, and what is wrong said by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.contract.planning.advice import AtPeak, Rate, Worksheet
from tuner.hardware.command import pool_load
from tuner.hardware.learned_pace import ERROR_ELSEWHERE, ERROR_SEEN

from .test_model_shape import LLAMA_70B

runner = CliRunner()
LOAD = ("--prompt", "1024", "--output", "1024", "--concurrency", "64")


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B))
    return str(tmp_path)


def items(*arguments: str) -> list[dict[str, Any]]:
    answer = runner.invoke(app, ["hardware", *arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    return list(json.loads(answer.stdout)["items"])


def test_it_says_what_fits_how_fast_it_is_and_what_it_costs(model: str) -> None:
    answer = runner.invoke(app, ["hardware", "--model", model, "--weights", "fp8", *LOAD, "--price", "h200=3.5"])
    assert answer.exit_code == 0, answer.output
    assert "the weights do not fit" in answer.stdout and "1M tokens" in answer.stdout
    assert "A forecast is no proof" in answer.stdout
    (alone, pair) = items(
        "--model", model, "--weights", "fp8", *LOAD, "--price", "h200=3.5", "--accelerator", "h200",
        "--tensor-parallel", "1", "--tensor-parallel", "2",
    )  # fmt: skip
    assert pair["tpot_s"] < alone["tpot_s"] and pair["device_s_per_1000"] > alone["device_s_per_1000"]
    assert alone["cost_per_million"] == pytest.approx(alone["device_s_per_1000"] * 1000 * 3.5 / 3600)
    assert (alone["cost_per_hour"], pair["cost_per_hour"], alone["replicas"]) == (3.5, 7.0, 1)
    assert alone["high_s"] == pytest.approx(alone["tpot_s"] * (1 + ERROR_SEEN))


def test_who_does_not_fit_has_no_forecast_and_copied_heads_are_told(model: str) -> None:
    (narrow, wide) = items(
        "--model", model, "--accelerator", "h100", "--tensor-parallel", "1", "--tensor-parallel", "16", *LOAD
    )
    assert narrow["tpot_s"] is None and narrow["running"] is None and narrow["notes"] == ["the weights do not fit"]
    assert wide["notes"] == ["8 KV heads are copied to 16 accelerators"]


def test_a_rate_is_carried_by_as_few_as_keep_the_limit_even_if_it_is_slower_than_forecast(model: str) -> None:
    asked = ("--model", model, "--weights", "fp8", "--accelerator", "h200", "--prompt", "1024", "--output", "512")
    loose = items(*asked, "--rate", "20")
    kept = items(*asked, "--rate", "20", "--tpot-limit-ms", "30")
    for free, one in zip(loose, kept, strict=True):
        assert one["high_s"] <= 0.030 + 1e-9 and one["replicas"] >= free["replicas"]
        assert one["tokens_per_s"] == pytest.approx(20 * 512)
    (impossible,) = items(*asked, "--rate", "20", "--tpot-limit-ms", "1", "--tensor-parallel", "1")
    assert impossible["tpot_s"] is impossible["replicas"] is None
    assert impossible["notes"] == ["not one request keeps the limit, as far as is known"]


def test_own_points_calibrate_the_place_that_they_are_of(model: str, tmp_path: Path) -> None:
    asked = ("--model", model, "--weights", "fp8", "--accelerator", "b200", *LOAD)
    before = {one["tensor_parallel"]: one for one in items(*asked)}
    file = tmp_path / "points.csv"
    half = [f"b200,2,1024,1024,64,{500 * before[2]['tpot_s']}"] * 3
    file.write_text("\n".join(["accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms", *half]) + "\n")
    after = {one["tensor_parallel"]: one for one in items(*asked, "--measured", str(file))}
    assert after[2]["tpot_s"] == pytest.approx(before[2]["tpot_s"] * 0.5**0.75)
    assert after[2]["known_as"] == "calibrated by 3 points" and after[4] == before[4]
    assert before[2]["high_s"] == pytest.approx(before[2]["tpot_s"] * (1 + ERROR_ELSEWHERE))
    assert after[2]["high_s"] == pytest.approx(after[2]["tpot_s"] * (1 + ERROR_SEEN))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --prompt, or take it from a --pool"),
        (LOAD[:4], "give --rate, or take it from a --pool"),
        ((*LOAD, "--rate", "3"), "give it or them"),
        ((*LOAD, "--tpot-limit-ms", "30"), "give it or them"),
        ((*LOAD, "--accelerator", "h10"), "no accelerator 'h10', did you mean 'h100'?"),
        ((*LOAD, "--weights", "fp9"), "no format 'fp9'"),
        ((*LOAD, "--engine", "llama.cpp"), "no engine 'llama.cpp'"),
        ((*LOAD, "--tensor-parallel", "3"), "divisor of the model's 64 heads"),
        ((*LOAD, "--kv-bits", "4"), "--kv-bits: 8 or 16"),
        ((*LOAD, "--price", "h300=1"), "no accelerator 'h300'"),
        ((*LOAD, "--price", "h200=free"), "wants a number above 0"),
    ],
)
def test_what_is_wrong_is_said_by_name(arguments: tuple[str, ...], said: str, model: str) -> None:
    answer = runner.invoke(app, ["hardware", "--model", model, *arguments])
    assert answer.exit_code == 2 and said in answer.output


@pytest.mark.parametrize(
    "row", ["h100,two,1,1,1,1", "h100,1,1,1,1", "h100,1,0,1,1,1", "h100,1,1,1,1,nan,", "h100,1,1,1,1,-2"]
)
def test_a_point_that_is_none_is_named_by_its_line(row: str, model: str, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(f"accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms\nh100,2,1,1,1,1\n{row}\n")
    answer = runner.invoke(app, ["hardware", "--model", model, *LOAD, "--measured", str(file)])
    assert answer.exit_code == 2 and "points.csv, line 3: wants" in answer.output


def test_a_pools_worksheet_is_a_mean_request_and_its_busiest_rate() -> None:
    sheet = Worksheet(
        requests=600, measured_s=60, step_s=60, nodes=2, node_hours=1 / 30, cached_share=0.25, waiting_share=None,
        requests_per_s=Rate(mean=10), prompt_tokens_per_s=Rate(mean=5000), output_tokens_per_s=Rate(mean=2000),
        at_peak=AtPeak(times=1, requests_per_s=12, nodes=2, in_flight=30, node_hours_a_day=48, assumes=[]),
    )  # fmt: skip
    assert pool_load(sheet) == {"prompt": 500, "output": 200, "rate": 12, "cached": 0.25}
    idle = sheet.model_copy(update={"requests_per_s": None, "at_peak": None})
    assert pool_load(idle) == {"prompt": None, "output": None, "rate": None, "cached": 0.25}
