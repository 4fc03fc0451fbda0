"""The whole story as a user runs it: `trimtab demo --once`, in its own processes, on free ports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 660


@pytest.mark.story
@pytest.mark.timeout(LIMIT_S + 60)
def test_every_step_of_the_story_truly_happens(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("trimtab"), "demo", "--once", "--data-dir", tmp_path / "demo"]
    done = subprocess.run(
        [*map(str, command), "--port", "7390", "--engine-ports", "7391,7392,7393"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Every step happened." in done.stdout
    for column in ("before", "during", "after"):
        assert column in done.stdout
    # The figures of the table are in the right order: worse in the middle, and back.
    row = next(line for line in done.stdout.splitlines() if "ttft p99" in line and line.count("ms") == 3)
    before, during, after = (float(text.replace(",", "")) for text in re.findall(r"([\d,.]+) ms", row))
    assert during > before
    assert after < during
