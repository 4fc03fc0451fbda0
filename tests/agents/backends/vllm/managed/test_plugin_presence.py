"""Whether the plugin is there is asked of the Python beside vLLM's command."""

import asyncio
import sys
from pathlib import Path

import pytest

from agents.backends.vllm.managed.plugin_presence import has_plugin
from agents.backends.vllm.node_file import NodeFile


def node(executable: Path, plugin: bool | None = None) -> NodeFile:
    variants = {"none": {"model": "m"}}
    made = {"executable": [str(executable)], "served_model_name": "m", "variants": variants, "plugin": plugin}
    return NodeFile.model_validate(made)


@pytest.mark.parametrize("installed", [True, False])
def test_the_environments_own_python_says_it(tmp_path: Path, installed: bool) -> None:
    if installed:
        (tmp_path / "tailwright_vllm.py").write_text("raise RuntimeError('nobody imports it')")
    (tmp_path / "python").write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    assert asyncio.run(has_plugin(node(tmp_path / "vllm"))) is installed


def test_the_node_file_goes_before_it_and_without_a_python_it_is_assumed(tmp_path: Path) -> None:
    assert asyncio.run(has_plugin(node(tmp_path / "vllm"))) is True
    assert asyncio.run(has_plugin(node(tmp_path / "vllm", plugin=False))) is False
