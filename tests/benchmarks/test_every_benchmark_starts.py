"""Every module of the benchmarks can be imported: none calls for a name that has moved away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WANTS_MORE = {"benchmarks.vllm_measures.raw_log.tailwright_raw_log": "a plugin of vLLM, installed in its environment"}

IMPORT_EACH = """
import importlib, json, sys
failed = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""


def modules() -> list[str]:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]


@pytest.mark.slow
def test_every_module_of_the_benchmarks_can_be_imported() -> None:
    names = modules()
    assert {"benchmarks.detection", "benchmarks.detection_measures.saturation", *WANTS_MORE} <= set(names)
    program = [sys.executable, "-c", IMPORT_EACH, *names]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280)
    failed = json.loads(ran.stdout.splitlines()[-1])
    assert set(failed) == set(WANTS_MORE), failed
