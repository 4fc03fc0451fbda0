"""Environments like vLLM's, made in a second: an interpreter of their own, metadata, the real plugin, a toy vllm."""

import shutil
import sys
import venv
from pathlib import Path

from agents.backends.vllm.doctor.installation import PLUGIN, plugin_version

ROOT = Path(__file__).resolve().parents[5]
TOY = ROOT / "tests/agents/backends/vllm/toy_vllm.py"


def make_environment(
    folder: Path,
    *,
    vllm: str | None = "0.32.0+cpu",
    plugin: str | None = "",
    entry_point: bool = True,
    toy: bool = True,
) -> Path:
    """The `vllm` executable of a new environment. `plugin`: its version, empty for this checkout's, None for none."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if vllm is not None:
        _metadata(packages, "vllm", vllm)
    if plugin is not None:
        points = "[vllm.stat_logger_plugins]\ntailwright = tailwright_vllm.stat_logger:TailwrightStatLogger\n"
        _metadata(packages, "tailwright-vllm", plugin or plugin_version(), points if entry_point else "")
        shutil.copytree(PLUGIN / "tailwright_vllm", packages / "tailwright_vllm")
    if toy:
        shutil.copy(TOY, packages)
        (packages / "toy.pth").write_text("import toy_vllm; toy_vllm.install()\n")
    executable = folder / "bin/vllm"
    executable.write_text(f"#!{folder}/bin/python\n")
    executable.chmod(0o755)
    return executable


def _metadata(packages: Path, name: str, version: str, entry_points: str = "") -> None:
    made = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if entry_points:
        (made / "entry_points.txt").write_text(entry_points)
