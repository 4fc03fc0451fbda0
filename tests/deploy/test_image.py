"""deploy/image: the file is one that builds from what is there, as nobody, and its steps give a service that runs.

There is no container tool here. So the steps of the `build` stage are run in a folder that has what the file copies.
"""

import filecmp
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.util import cache_from_source
from pathlib import Path

import httpx
import pytest

from controlplane.command.up import UpSettings
from tests.processes import free_port, let_others_enter, wait_for

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy/image/Containerfile"
HEALTHY = ROOT / "deploy/image/healthy.py"
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
NOBODY = 10001
OURS = ("controlplane", "agents", "tuner", "web")
TESTS = {"test", "tests"}
"""Folders that are not compiled."""


@dataclass
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [value for name, value in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        return self.all(instruction)[-1]


def stages() -> dict[str, Stage]:
    """By name, with what their base stages say before; lines that end with a backslash go on."""
    found: dict[str, Stage] = {}
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, _, value = line.partition(" ")
        if instruction == "FROM":
            base, _, name = value.partition(" AS ")
            found[name] = Stage(base, name, list(found[base].steps) if base in found else [])
        elif found:
            list(found.values())[-1].steps.append((instruction, value.strip()))
    return found


def copied(stage: Stage) -> list[tuple[list[str], str]]:
    """(sources, target) of what a stage takes from the checkout."""
    words = [shlex.split(value) for value in stage.all("COPY") if not value.startswith("--from=")]
    return [(one[:-1], one[-1]) for one in words]


def test_every_source_is_there_and_let_through() -> None:
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    for stage in stages().values():
        for source in (source for sources, _ in copied(stage) for source in sources):
            assert (ROOT / source).exists(), source
            assert any(source == one or source.startswith(f"{one}/") for one in let_through), source
    assert all((ROOT / one).exists() for one in let_through)


def test_nothing_secret_is_let_through() -> None:
    """What the data folder, `tailwright tls` and people leave in a checkout."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert patterns[1] == "*"
    let_through = [one[1:] for one in patterns if one.startswith("!")]
    tops = {one.split("/")[0] for one in let_through}
    assert not tops & {"tailwright-data", "tailwright-tls", "agent-state", ".git", ".venv", "enrolment-token", ".env"}
    names = ("*.key", "*.pem", "*-token", "*.db", "*.env")
    listed = subprocess.run(["git", "ls-files", *let_through], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in listed.stdout.splitlines() if any(fnmatch(name, pattern) for pattern in names)]


def test_the_last_stages_run_as_nobody_from_a_base_that_can_be_pinned() -> None:
    found = stages()
    assert FILE.read_text().count("\nARG BASE=") == 1 and found["build"].base == found["runtime"].base == "${BASE}"
    assert list(found)[-1] == "control"
    for stage in (found["control"], found["engine"]):
        assert stage.last("USER") == f"{NOBODY}:{NOBODY}" and stage.last("ENTRYPOINT") == '["tailwright"]'
        assert stage.last("STOPSIGNAL") == "SIGTERM" and stage.last("VOLUME") == '["/data"]'
        assert not copied(stage), "the last stages take from `build` alone"
        assert all(word in stage.last("LABEL") for word in ("licenses", "revision", "version", "title"))
    variables = shlex.split(found["control"].last("ENV"))
    names = {word.split("=")[0] for word in variables if word.startswith("TAILWRIGHT_")}
    known = {f"TAILWRIGHT_{name.upper()}" for name in UpSettings.model_fields} | {"TAILWRIGHT_STATE_DIR"}
    assert names and names <= known


def test_packages_are_installed_by_hash_alone() -> None:
    steps = [step for stage in stages().values() for step in stage.all("RUN") if "pip install" in step]
    assert steps
    for step in steps:
        assert "--require-hashes --no-deps" in step or "--no-deps --no-build-isolation --no-index -e ." in step
        locks = [word for word in shlex.split(step) if word.startswith("deploy/locks/")]
        assert all((ROOT / lock).is_file() for lock in locks)


def libraries(place: Path) -> Path:
    return place / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def hand_over_compiled(folder: Path, own: Path) -> None:
    """What this environment has compiled of the same bytes, so that `compileall` finds it done: a minute of CPU.

    The smallest module of each folder is left to it: a folder that it does not come to is noticed.
    """
    by_folder: dict[Path, list[Path]] = {}
    for source in folder.rglob("*.py"):
        if not TESTS & set(source.parts):
            by_folder.setdefault(source.parent, []).append(source)
    for sources in by_folder.values():
        for source in sorted(sources, key=lambda one: one.stat().st_size)[1:]:
            _hand_over(source, own / source.relative_to(folder))


def _hand_over(source: Path, own: Path) -> None:
    compiled, target = Path(cache_from_source(str(own))), Path(cache_from_source(str(source)))
    if not compiled.exists() or not filecmp.cmp(source, own, False):
        return
    code = compiled.read_bytes()
    flags, written = (int.from_bytes(code[at : at + 4], "little") for at in (4, 8))
    if flags == 0 and written == int(own.stat().st_mtime):  # It goes by when the source was written (PEP 552).
        os.utime(source, (written, written))
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(code)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the `build` stage leaves in its working directory."""
    folder = tmp_path_factory.mktemp("image")
    let_others_enter(folder)
    stage = stages()["build"]
    python = folder / "python3"
    python.symlink_to(sys.executable)
    place = folder / "tailwright"
    place.mkdir()
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    for instruction, value in stage.steps:
        if instruction == "COPY":
            *sources, target = shlex.split(value)
            for source in sources:
                there = place / target / source if target == "./" else place / target
                there.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, there, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, there)
        elif instruction == "RUN":
            if "compileall" in value:
                hand_over_compiled(libraries(place / ".venv"), Path(sysconfig.get_path("purelib")))
                for name in OURS:
                    hand_over_compiled(place / name, ROOT / name)
            done = subprocess.run(
                ["bash", "-euc", value], cwd=place, env=environment, capture_output=True, text=True, timeout=900
            )
            assert done.returncode == 0, f"{value}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    yield place
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_steps_leave_nothing_to_compile(built: Path) -> None:
    """The service could not keep it: it may not write there."""
    folders = [libraries(built / ".venv"), *(built / name for name in OURS)]
    modules = [one for folder in folders for one in folder.rglob("*.py") if not TESTS & set(one.parts)]
    missing = [one for one in modules if not Path(cache_from_source(str(one))).exists()]
    assert len(modules) > 5000 and missing == []
    assert any(one.parts[-2:] == ("sqlalchemy", "inspection.py") for one in modules)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_steps_give_a_service_that_nobody_runs_from_a_folder_that_it_cannot_write(
    built: Path, tmp_path: Path
) -> None:
    port, data = free_port(), tmp_path / "data"
    data.mkdir(mode=0o700)
    let_others_enter(tmp_path)
    as_nobody: list[str] = []
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    python = [*as_nobody, f"{built}/.venv/bin/python"]
    if subprocess.run([*python, "-c", ""], capture_output=True, cwd="/").returncode:
        pytest.skip(f"another user cannot run {sys.executable}")
    # Where it lies in a home that others may not enter, it runs for who was let in, and starts nobody.
    starts_others = subprocess.run([*python, "-c", CHILD], capture_output=True, cwd="/").returncode == 0
    environment = {"PATH": f"{built}/.venv/bin:/usr/bin:/bin", "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TAILWRIGHT_DATA_DIR": str(data / "tailwright"), "TAILWRIGHT_PORT": str(port)}
    environment |= {"TAILWRIGHT_HOST": "0.0.0.0", "TAILWRIGHT_INSECURE_HTTP": "true"}
    environment |= {"TAILWRIGHT_ALLOWED_HOSTS": "tailwright.example,other.example"}

    def healthy() -> int:
        return subprocess.run(
            [*python, f"{built}/deploy/image/healthy.py"], env=environment, capture_output=True, timeout=60
        ).returncode

    assert healthy() == 1
    with (tmp_path / "log").open("wb") as log:
        service = subprocess.Popen([*as_nobody, "tailwright", "up"], cwd=data, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, headers={"Host": "tailwright.example"}, trust_env=False) as client:
            wait_for("the service is ready", lambda: client.get("/readyz").status_code == 200)
            assert healthy() == 0
            login = client.get("/login")
        assert login.status_code == 200, (tmp_path / "log").read_text()[-4000:]
        if starts_others:
            wait_for("the tuner worker has signed in", lambda: "actor='tuner'" in (tmp_path / "log").read_text())
    finally:
        service.terminate()
        assert service.wait(30) == 0
    assert (data / "tailwright").stat().st_mode & 0o777 == 0o700
