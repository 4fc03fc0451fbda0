"""What an engine says it runs is read from what runs it, emulated formats included."""

import json
from pathlib import Path

from agents.engine.core.effective_config import read_back
from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions
from controlplane.contract.reports.model_shape import shape_of


def test_each_permitted_format_says_whether_it_is_native_or_emulated(model_dir: Path) -> None:
    engine = StepEngine(EngineOptions(model_dir, quantizations=("none", "int8", "fp8"), kernels="torch"), EventLog())
    told = read_back(engine).body()
    assert told["capabilities"]["quantization"] == ["none", "int8", "fp8"]
    formats = told["capabilities"]["quantization_formats"]
    assert set(formats) == {"none", "int8", "fp8"}
    assert "emulated" in formats["int8"] and "emulated" in formats["fp8"]
    assert told["capabilities"]["kernels"].startswith("torch")
    assert formats["none"] in told["sources"]["quantization"]


def test_what_computes_the_plain_layers_is_told_by_size(model_dir: Path) -> None:
    engine = StepEngine(EngineOptions(model_dir), EventLog())
    told = read_back(engine).body()["capabilities"]["linear_kernels"]
    layers = engine.runner.decoder.plain_layers()
    assert sum(own["layers"] for own in told) == len(layers) == 4 * 2 + 1
    assert {(own["outputs"], own["inputs"], own["kernel"]) for own in told} == {
        (*layer.size, layer.kernel) for layer in layers
    }
    assert all(own["microseconds"] == {} for own in told)  # So small that nothing is measured.


def test_the_models_sizes_are_those_of_its_configuration(model_dir: Path) -> None:
    engine = StepEngine(EngineOptions(model_dir), EventLog())
    told = read_back(engine).body()["shape"]
    assert told == shape_of(json.loads((model_dir / "config.json").read_text())).model_dump()
