"""The environment of the real vLLM is whole: nothing in it misses anything but what serving text leaves out."""

import re
import subprocess
from pathlib import Path

LEFT_OUT = {"torchaudio", "torchcodec", "torchvision"}


def test_nothing_is_missing_but_audio_and_video(vllm_executable: Path) -> None:
    python = vllm_executable.with_name("python")
    told = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True).stdout
    missing = re.findall(r"^(\S+) \S+ requires (\S+), which is not installed\.$", told, re.MULTILINE)
    assert {wanted for _, wanted in missing} <= LEFT_OUT, told
    assert len(told.strip().splitlines()) in (len(missing), len(missing) + 1), told
