"""`make wheel` builds dist/tailwright-VERSION-py3-none-any.whl: the same commit gives the same bytes.

That holds for any folder, umask and time, with the same setuptools and zlib. Built is a copy of the tracked files, with
plain modes, at the commit's time, and without asking an index. What is changed and not committed goes in, and is said.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.supply.lock_file import ROOT


def main() -> int:
    if git("status", "--porcelain", "--untracked-files=no").strip():
        print("wheel: the checkout has changes that are not committed; they are built in.", file=sys.stderr)
    wheel = build(ROOT / "dist", commit_time_s())
    print(f"{wheel.relative_to(ROOT)} sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    return 0


def build(into: Path, time_s: int, within: Path | None = None) -> Path:
    """The wheel's path in folder `into`, its files dated `time_s` (Unix seconds).

    `within` is where the copy that is built is made, else a temporary folder. Raises CalledProcessError.
    """
    with TemporaryDirectory(dir=within) as scratch:
        source, built = Path(scratch) / "source", Path(scratch) / "built"
        copy_tracked(source)
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(built), "."]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time_s), "PYTHONHASHSEED": "0"}
        subprocess.run(command, cwd=source, env=environment, umask=0o022, check=True)
        (wheel,) = built.glob("*.whl")
        into.mkdir(exist_ok=True)
        return Path(shutil.copyfile(wheel, into / wheel.name))


def copy_tracked(into: Path) -> None:
    """The tracked files as they lie in the checkout, with modes 644 and 755 whatever the umask."""
    for name in git("ls-files", "-z").split("\0"):
        file = ROOT / name
        if name and file.is_file() and not file.is_symlink():
            copy = into / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            copy.chmod(0o755 if os.access(file, os.X_OK) else 0o644)


def commit_time_s() -> int:
    """When the commit that is checked out was made, in Unix seconds."""
    return int(git("log", "-1", "--format=%ct"))


def git(*arguments: str) -> str:
    """What git says in the checkout. Raises CalledProcessError."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
