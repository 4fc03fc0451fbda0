"""The whole story as a user runs it: `tailwright demo --once`, in its own processes, on free ports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents.backends.vllm.doctor.installation import default_executable

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 660
VLLM_LIMIT_S = 1260


@pytest.mark.story
@pytest.mark.timeout(LIMIT_S + 60)
def test_every_step_of_the_story_truly_happens(tmp_path: Path) -> None:
    _tell(LIMIT_S, "--data-dir", tmp_path / "demo")


@pytest.mark.story
@pytest.mark.timeout(VLLM_LIMIT_S + 60)
@pytest.mark.skipif(not default_executable().exists(), reason="no environment of vLLM here (make vllm)")
def test_every_step_happens_on_real_vllm_servers(tmp_path: Path) -> None:
    _tell(VLLM_LIMIT_S, "--engine", "vllm", "--data-dir", tmp_path / "demo")
    assert not _processes_in(tmp_path), "something outlived the demo"


def _tell(limit_s: float, *options: object) -> None:
    """Run the demo; every step has to happen, and the figures of its table to be in the right order."""
    command = [Path(sys.executable).with_name("tailwright"), "demo", "--once", *options]
    done = subprocess.run(
        [*map(str, command), "--port", "7390", "--engine-ports", "7391,7392,7393"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Every step happened." in done.stdout
    for column in ("before", "during", "back", "after"):
        assert column in done.stdout
    reached = re.search(r"the first finding .* after (\d+) s, the first verified gain .* after (\d+) s\.", done.stdout)
    assert reached is not None and 0 < int(reached[1]) < int(reached[2]) < limit_s
    # Worse in the middle, and back.
    rows = [re.findall(r"([\d.]+) (s|ms)", line) for line in done.stdout.splitlines() if "ttft p99" in line]
    figures = next(row for row in rows if len(row) == 4)
    before, during, back, after = (float(text) * {"s": 1, "ms": 1e-3}[unit] for text, unit in figures)
    assert during > max(before, back, after)


def _processes_in(folder: Path) -> list[int]:
    """Processes whose working folder is within `folder`, as that of the demo's servers is, engines included."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue  # Ended meanwhile, or another user's.
    return found
