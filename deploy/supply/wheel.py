"""`make wheel` builds dist/tailwright-VERSION-py3-none-any.whl: the same commit gives the same bytes.

That holds for any folder, umask and time, with the same setuptools and zlib. Built is a copy of the tracked files, with
plain modes, at the commit's time, and without asking an index. What is changed and not committed goes in, and is said.
Beside it lie the bill of materials and SHA256SUMS of both, signed where TAILWRIGHT_SIGNING_KEY names a key: a signed
release is a commit's, so that with changes nothing is built then.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.contract.errors import BadSettings
from deploy.supply import release_signing, sbom
from deploy.supply.lock_file import ROOT


def main() -> int:
    changed = bool(git("status", "--porcelain", "--untracked-files=no").strip())
    try:
        named = os.environ.get(release_signing.VARIABLE)
        key = release_signing.read_key(Path(named)) if named else None
    except BadSettings as error:
        print(f"wheel: {error.message}", file=sys.stderr)
        return 1
    if changed and key is not None:
        print("wheel: the checkout has changes that are not committed: commit them, then sign.", file=sys.stderr)
        return 1
    if changed:
        print("wheel: the checkout has changes that are not committed; they are built in.", file=sys.stderr)
    for line in release(ROOT / "dist", commit_time_s(), key):
        print(line)
    return 0


def release(into: Path, time_s: int, key: Ed25519PrivateKey | None) -> list[str]:
    """Wheel, bill and sums in folder `into`, signed with `key`; what was written, a line each. As `build` raises."""
    wheel = build(into, time_s)
    bill = Path(shutil.copyfile(sbom.FILE, wheel.with_name(f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json")))
    sums = release_signing.write_sums(into, (wheel, bill))
    said = [f"{into / name} sha256:{digest}" for digest, name in map(str.split, sums.read_text().splitlines())]
    if key is None:
        return [*said, f"{sums}, not signed: {release_signing.VARIABLE} names no key"]
    return [*said, f"{release_signing.sign(sums, key)} of {sums}"]


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
