"""What is asked of vLLM's environment, of environments made for the purpose."""

import shutil
import sys
from pathlib import Path

import pytest

from agents.backends.vllm.doctor.installation import (
    InstallationMissing,
    default_executable,
    examine,
    import_problems,
    plugin_version,
)
from tests.agents.backends.vllm.doctor.made_environment import make_environment


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("vllm") / "env")


@pytest.mark.slow
def test_a_whole_environment(whole: Path) -> None:
    found = examine(whole)
    assert found.vllm == "0.32.0+cpu" and found.plugin == plugin_version()
    assert found.entry_point == "tailwright_vllm.stat_logger:TailwrightStatLogger"
    assert found.python == whole.with_name("python") and found.prefix == whole.parents[1]
    assert "0.32.0" in found.tried
    assert found.plugin_is_this_source
    assert not found.otlp_http and not found.otlp_grpc
    assert import_problems(found) == {"scheduler": "", "stat_logger": ""}


def test_another_state_of_the_plugin_shows(whole: Path, tmp_path: Path) -> None:
    folder = examine(whole).plugin_folder
    assert folder is not None
    source = folder / "folder.py"
    before = source.read_text()
    try:
        source.write_text(before + "\n# Changed.\n")
        assert not examine(whole).plugin_is_this_source
    finally:
        source.write_text(before)


@pytest.mark.slow
def test_nothing_installed_is_no_error(tmp_path: Path) -> None:
    found = examine(make_environment(tmp_path / "env", vllm=None, plugin=None, toy=False))
    assert found.vllm is None and found.plugin is None and found.entry_point is None and not found.plugin_is_this_source
    problems = import_problems(found)
    assert problems["scheduler"].startswith("ModuleNotFoundError") and problems["stat_logger"]


@pytest.mark.parametrize(
    "first_lines",
    [
        "#!{python}\n",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
        "#!/usr/bin/env {python}\n",
        "#!/bin/bash\nexec something\n",  # The one beside it is taken.
    ],
)
def test_the_interpreter_is_found(whole: Path, tmp_path: Path, first_lines: str) -> None:
    python = whole.with_name("python")
    executable = whole.with_name("vllm-other")
    executable.write_text(first_lines.format(python=python))
    executable.chmod(0o755)
    assert examine(executable).prefix == whole.parents[1]


def test_what_is_no_environment_is_told_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(InstallationMissing, match="does not exist; run `make vllm`"):
        examine(tmp_path / "vllm")
    (tmp_path / "vllm").write_text("#!/bin/true\n")
    with pytest.raises(InstallationMissing, match="is not executable"):
        examine(tmp_path / "vllm")
    (tmp_path / "vllm").chmod(0o755)
    with pytest.raises(InstallationMissing, match=r"the Python of .* was not found"):
        examine(tmp_path / "vllm")
    shutil.copy("/bin/false", tmp_path / "python3")
    with pytest.raises(InstallationMissing, match="gives up with status 1: no output"):
        examine(tmp_path / "vllm")


def test_the_folder_of_the_environment_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TAILWRIGHT_VLLM_ENV", raising=False)
    assert default_executable().parts[-3:] == (".venv-vllm", "bin", "vllm")
    monkeypatch.setenv("TAILWRIGHT_VLLM_ENV", str(tmp_path))
    assert default_executable() == tmp_path / "bin/vllm"
    assert Path(sys.executable) != default_executable()
