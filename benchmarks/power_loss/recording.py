"""A process whose writes below one folder are recorded (recorder.c), for a power cut afterwards. Linux, with gcc.

recording = Recording(folder, scratch)      # what is in the folder now counts as safely on the disk
... start a process with recording.environment(), kill it with SIGKILL ...
lost = recording.cut(random)                # the folder is now what a disk might hold after the power went
"""

import random
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from benchmarks.power_loss.disk import Cut, Loss, after_power_loss, read_log

SOURCE = Path(__file__).with_name("recorder.c")


class RecorderFailed(Exception):
    """The recorder cannot be built here."""


@cache
def library() -> Path:
    """The recorder, built once a process into a folder that stays."""
    folder = Path(tempfile.mkdtemp(prefix="tailwright-recorder-"))
    made = folder / "recorder.so"
    command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl", "-lpthread"]
    try:
        built = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RecorderFailed("gcc is not installed: deploy/test_packages.sh installs g++, which brings it") from error
    if built.returncode:
        raise RecorderFailed(f"gcc: {built.stderr.strip()[-500:]}")
    return made


class Recording:
    """`scratch` lies outside of the folder, on the same machine; it holds the log and the disk's own state."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder, self._disk, self._log = folder.resolve(), scratch / "disk", scratch / "log"
        scratch.mkdir(parents=True, exist_ok=True)
        self.settle()

    def environment(self) -> dict[str, str]:
        """For the recorded process; it must not be started while another one is being recorded."""
        self._log.unlink(missing_ok=True)
        return {
            "LD_PRELOAD": str(library()),
            "TAILWRIGHT_RECORD_FOLDER": str(self._folder),
            "TAILWRIGHT_RECORD_LOG": str(self._log),
        }

    def settle(self) -> None:
        """All that the folder holds is on the disk: its process was killed, and the machine stayed up long enough."""
        shutil.rmtree(self._disk, ignore_errors=True)
        shutil.copytree(self._folder, self._disk)
        self._log.unlink(missing_ok=True)

    def cut(self, chosen: random.Random, how: Cut) -> Loss:
        """Turn the folder into what a disk may hold when the power goes now. The process must be dead."""
        records = read_log(self._log) if self._log.exists() else []
        loss = after_power_loss(self._disk, self._folder, records, chosen, how)
        shutil.rmtree(self._folder)
        shutil.copytree(self._disk, self._folder)
        self._log.unlink(missing_ok=True)
        return loss
