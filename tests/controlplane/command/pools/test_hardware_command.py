"""`tailwright hardware` as it is typed: a table, JSON, a pool's own traffic, and what is wrong said by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controlplane.command.main import app
from controlplane.command.pools.hardware_command import read_shape
from controlplane.contract.reports.model_shape import shape_of
from controlplane.hardware.learned_pace import nine_of_ten
from tests.controlplane.contract.reports.known_configs import DEEPSEEK_V3, LLAMA_70B

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
    error = nine_of_ten(True, False, "vllm", 0, 0)
    assert alone["high_s"] == pytest.approx(alone["tpot_s"] / (1 - error.between)) and alone["error"] == error.between
    assert alone["first_token_low_s"] == pytest.approx(alone["first_token_s"] / (1 + error.first))
    assert (alone["known_as"], alone["forecast_class"]) == ("seen", "calibrated")


def test_who_does_not_fit_has_no_forecast_and_copied_heads_are_told(model: str) -> None:
    (narrow, wide) = items(
        "--model", model, "--accelerator", "h100", "--tensor-parallel", "1", "--tensor-parallel", "16", *LOAD
    )
    assert narrow["tpot_s"] is None and narrow["running"] is None and narrow["notes"] == ["the weights do not fit"]
    assert wide["notes"] == ["8 KV heads are copied to 16 accelerators"]


def test_latents_are_on_each_accelerator(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK_V3))
    asked = ("--model", str(tmp_path), "--weights", "fp8", "--accelerator", "h200", *LOAD)
    (narrow, wide) = items(*asked, "--tensor-parallel", "4", "--tensor-parallel", "8")
    assert narrow["notes"] == ["the weights do not fit"]
    assert wide["notes"] == ["each accelerator caches the latents of all heads"]
    assert wide["kv_bytes_per_token"] == 8 * 70_272 and wide["error"] == nine_of_ten(True, True, "vllm", 0, 0).between


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
    assert (before[2]["error"], before[2]["forecast_class"]) == (0.4, "extrapolated")
    assert (after[2]["error"], after[2]["forecast_class"]) == (0.15, "calibrated")
    assert after[2]["first_token_s"] == before[2]["first_token_s"], "nothing was measured of it"


def test_own_first_tokens_calibrate_the_first_token(model: str, tmp_path: Path) -> None:
    asked = ("--model", model, "--weights", "fp8", "--accelerator", "h200", "--tensor-parallel", "2", *LOAD)
    (before,) = items(*asked)
    file = tmp_path / "points.csv"
    double = [f"h200,2,1024,1024,64,{1e3 * before['tpot_s']},{2e3 * before['first_token_s']}"] * 3
    file.write_text(
        "\n".join(["accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms,ttft_ms", *double]) + "\n"
    )
    (after,) = items(*asked, "--measured", str(file))
    assert after["first_token_s"] == pytest.approx(before["first_token_s"] * 2**0.75)
    assert after["tpot_s"] == pytest.approx(before["tpot_s"])


def test_a_model_with_experts_is_forecast_with_its_error_beside_it(tmp_path: Path) -> None:
    experts = {**LLAMA_70B, "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 4096}
    (tmp_path / "config.json").write_text(json.dumps(experts))
    asked = ("--model", str(tmp_path), "--weights", "fp8", "--accelerator", "h200", "--tensor-parallel", "4", *LOAD)
    (one,) = items(*asked)
    assert (one["known_as"], one["forecast_class"], one["error"]) == ("seen", "extrapolated", 0.52)
    answer = runner.invoke(app, ["hardware", *asked])
    assert "Note: half of the forecasts for models with experts were within 18 %" in answer.output
    assert "seen, extrapolated" in answer.output


SMALL = LLAMA_70B | {"num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64}
"""As Llama 1B has them but for heads."""
LARGE = LLAMA_70B | {"num_hidden_layers": 126, "hidden_size": 16384, "intermediate_size": 53248}


@pytest.mark.parametrize(("config", "billions"), [(SMALL, "1.11"), (LARGE, "406")], ids=["small", "large"])
def test_a_model_of_another_size_than_was_learned_of_is_extrapolated(
    config: dict[str, Any], billions: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = ("--model", str(tmp_path), "--weights", "fp8", "--accelerator", "h200", "--tensor-parallel", "8", *LOAD)
    (one,) = items(*asked)
    assert (one["known_as"], one["forecast_class"], one["error"]) == ("another size", "extrapolated", 0.42)
    assert one["low_s"] == pytest.approx(one["tpot_s"] / 1.42) and one["high_s"] == pytest.approx(one["tpot_s"] / 0.58)
    assert one["first_token_low_s"] == pytest.approx(one["first_token_s"] / 3.6) and one["first_token_high_s"] is None
    answer = runner.invoke(app, ["hardware", *asked])
    assert f"Note: its layers have {billions} billion weights" in answer.output, answer.output
    assert "learned of dense models with 7 to 68: of a model that was held out" in answer.output
    assert "another size, extrapolated" in answer.output and " or more " in answer.output
    file = tmp_path / "points.csv"
    same = [f"h200,8,1024,1024,64,{1e3 * one['tpot_s']}"] * 3
    file.write_text("\n".join(["accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms", *same]) + "\n")
    (after,) = items(*asked, "--measured", str(file))
    assert (after["known_as"], after["forecast_class"], after["error"]) == (
        "calibrated by 3 points",
        "calibrated",
        0.21,
    )


def test_stages_of_a_pipeline_make_room_for_a_model_and_are_told_as_seen_nowhere(model: str, tmp_path: Path) -> None:
    asked = ("--model", model, "--weights", "fp8", "--accelerator", "h100", "--tensor-parallel", "1", *LOAD)
    cuts = ("--pipeline-parallel", "1", "--pipeline-parallel", "2")
    alone, two = items(*asked, *cuts)
    assert alone["notes"] == ["the weights do not fit"] and (alone["pipeline_parallel"], alone["known_as"]) == (
        1,
        "seen",
    )
    assert (two["pipeline_parallel"], two["known_as"], two["forecast_class"]) == (2, "a pipeline", "extrapolated")
    assert two["device_s_per_1000"] == pytest.approx(1000 * 2 / two["tokens_per_s"])
    assert two["low_s"] < two["tpot_s"] / 1.4 < two["tpot_s"] / 0.6 == pytest.approx(two["high_s"])
    answer = runner.invoke(app, ["hardware", *asked, *cuts, "--price", "h100=2"])
    assert "1 x 2" in answer.output and "Note: no pipeline is among what the factors were learned of" in answer.output
    assert "no pipeline" not in runner.invoke(app, ["hardware", *asked]).output
    file = tmp_path / "points.csv"
    half = [f"h100,1,1024,1024,64,{500 * two['tpot_s']},2"] * 3
    file.write_text(
        "\n".join(["accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms,pipeline_parallel", *half]) + "\n"
    )
    _, after = items(*asked, *cuts, "--measured", str(file))
    assert after["tpot_s"] == pytest.approx(two["tpot_s"] * 0.5**0.75)
    assert (after["known_as"], after["error"]) == ("calibrated by 3 points", two["error"])
    assert after["forecast_class"] == "extrapolated", "what own points make better was not measured of pipelines"


def test_who_comes_at_random_waits_the_longer_the_more_they_are(model: str) -> None:
    asked = ("--model", model, "--weights", "fp8", "--accelerator", "h200", "--tensor-parallel", "8", *LOAD[:4])
    firsts = [items(*asked, "--rate", rate)[0]["first_token_s"] for rate in ("0.1", "5", "15")]
    assert firsts[0] < firsts[1] < firsts[2]
    (always,) = items(*asked, "--concurrency", "4")
    assert always["first_token_s"] <= firsts[0]
    (crowd,) = items(*asked, "--concurrency", "5000")
    assert crowd["first_token_s"] is None and "wait for memory" in crowd["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--prompt: give it, or a pool that served enough to tell it"),
        (LOAD[:4], "--rate: give it, or a pool that served enough to tell it"),
        ((*LOAD, "--rate", "3"), "give it or them"),
        ((*LOAD, "--tpot-limit-ms", "30"), "give it or them"),
        ((*LOAD, "--accelerator", "h10"), "--accelerator: no accelerator 'h10', did you mean 'h100'?"),
        ((*LOAD, "--accelerator", ""), "--accelerator: String should have at least 1 character"),
        ((*LOAD, "--weights", "fp9"), "--weights: no format 'fp9', did you mean 'fp8'?"),
        ((*LOAD, "--engine", "llama.cpp"), "--engine: no engine 'llama.cpp', valid names: sglang, trtllm, vllm"),
        ((*LOAD, "--tensor-parallel", "3"), "divisor of the model's 64 heads"),
        ((*LOAD, "--pipeline-parallel", "81"), "wants a layer a stage at least, and the model has 80"),
        ((*LOAD, "--kv-bits", "4"), "--kv-bits: 8 or 16"),
        ((*LOAD, "--price", "h20=1"), "--price: no accelerator 'h20', did you mean 'h200'?"),
        ((*LOAD, "--price", "h200=free"), "--price h200: wants a number above 0"),
        ((*LOAD, "--price", "h200=NaN"), "--price h200: Input should be a finite number"),
        ((*LOAD, "--window", "100d"), "--window, in seconds: Input should be less than or equal to 604800"),
        ((*LOAD, "--tensor-parallel", "4096"), "--tensor-parallel: Input should be less than or equal to 1024"),
    ],
)
def test_what_is_wrong_is_said_by_name(arguments: tuple[str, ...], said: str, model: str) -> None:
    answer = runner.invoke(app, ["hardware", "--model", model, *arguments])
    assert answer.exit_code == 2 and said in answer.output, answer.output


@pytest.mark.parametrize(
    "row",
    [
        "h100,two,1,1,1,1",
        "h100,1,1,1,1",
        "h100,1,0,1,1,1",
        "h100,1,1,1,1,nan",
        "h100,1,1,1,1,-2",
        "h10,1,1,1,1,1",
        "h100,1,1,1,1,30,5",
        "h" * 140_000,
    ],
)
def test_a_point_that_is_none_is_named_by_its_line(row: str, model: str, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(f"accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms\nh100,2,1,1,1,1\n{row}\n")
    answer = runner.invoke(app, ["hardware", "--model", model, *LOAD, "--measured", str(file)])
    assert answer.exit_code == 2 and "points.csv, line 3: " in answer.output


POINTS = "accelerator,tensor_parallel,prompt,output,concurrency,tpot_ms\nh200,2,1024,1024,64,30\n"


@pytest.mark.parametrize(
    "text", [POINTS.replace("\n", "\r\n").encode(), POINTS.encode("utf-8-sig")], ids=["crlf", "bom"]
)
def test_points_as_spreadsheets_write_them_are_read(text: bytes, model: str, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_bytes(text)
    (one,) = items("--model", model, *LOAD, "--accelerator", "h200", "--tensor-parallel", "2", "--measured", str(file))
    assert one["known_as"] == "calibrated by 1 point"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "points.csv, line 1: no column accelerator; the first line wants accelerator,tensor_parallel,prompt,"),
        (POINTS.splitlines()[0].encode(), "points.csv: no line below the columns' names"),
        (POINTS.replace(",", ";").encode(), "points.csv, line 1: no column accelerator"),
        (POINTS.encode("utf-16"), "points.csv: no text in UTF-8; save it as that"),
    ],
    ids=["empty", "no points", "semicolons", "utf-16"],
)
def test_a_file_without_points_is_refused(text: bytes, said: str, model: str, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_bytes(text)
    answer = runner.invoke(app, ["hardware", "--model", model, *LOAD, "--measured", str(file)])
    assert answer.exit_code == 2 and answer.output.startswith("--measured: ") and said in answer.output, answer.output


def test_points_that_no_row_is_of_are_told(model: str, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(POINTS)
    asked = ("--model", model, *LOAD, "--accelerator", "h200", "--measured", str(file), "--tensor-parallel")
    said = "Note: 1 of 1 points of your own are of no row: of no use."
    assert said in runner.invoke(app, ["hardware", *asked, "4"]).output
    assert "of your own are of no row" not in runner.invoke(app, ["hardware", *asked, "2"]).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not a readable config.json (Expecting value"),
        (b"[1]", "wants a JSON object"),
        (b"{", "not a readable config.json"),
        (b"[" * 100_000, "not a readable config.json"),
        (json.dumps(LLAMA_70B).encode("utf-16"), "not a readable config.json (no text in UTF-8; save it as that)"),
        (json.dumps({"text_config": [1]}).encode(), "text_config: wants an object"),
        (json.dumps(LLAMA_70B | {"vocab_size": 10**30}).encode(), "vocab_size: wants 2147483648 at most, got 1000"),
    ],
    ids=["empty", "list", "half", "deep", "utf-16", "text", "huge"],
)
def test_a_file_that_is_no_configuration_is_refused(text: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(text)
    answer = runner.invoke(app, ["hardware", "--model", str(tmp_path), *LOAD])
    assert answer.exit_code == 2 and answer.output.startswith(f"--model: {tmp_path / 'config.json'}: "), answer.output
    assert said in answer.output


def test_a_folder_stands_for_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B), encoding="utf-8-sig")
    assert read_shape(tmp_path) == read_shape(tmp_path / "config.json") == shape_of(LLAMA_70B)
