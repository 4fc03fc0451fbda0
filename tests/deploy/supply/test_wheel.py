"""The wheel is the same bytes wherever it is built, holds all that is tracked, and an environment has all of it."""

import hashlib
import os
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile, copytree

import pytest

from deploy.supply import lock_file, release_signing, sbom, verify_release, wheel

PACKAGES = ("controlplane", "agents", "tuner", "web")
OTHERS = "agents/vllm_plugin/"
"""A distribution of its own."""
TIME_S = 1_700_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    file = tmp_path_factory.mktemp("key") / "release"
    release_signing.new_key(file)
    return file


@pytest.fixture(scope="module")
def released(tmp_path_factory, key):
    """The folder of a signed release, and what was said of it."""
    place = tmp_path_factory.mktemp("one") / "dist"
    with masked(0o022):
        return place, wheel.release(place, TIME_S, release_signing.read_key(key))


@pytest.fixture(scope="module")
def built(released, tmp_path_factory):
    """Two builds: in folders of other names and depths, under other umasks, at other times of day."""
    place = tmp_path_factory.mktemp("two") / "further" / "down"
    place.mkdir(parents=True)
    with masked(0o077):
        again = wheel.build(place / "dist", TIME_S, within=place)
    (first,) = released[0].glob("*.whl")
    return [first, again]


@contextmanager
def masked(mask):
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def tracked():
    return {name for name in wheel.git("ls-files", *PACKAGES).splitlines() if not name.startswith(OTHERS)}


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_two_builds_are_the_same_bytes(built):
    one, other = (hashlib.sha256(file.read_bytes()).hexdigest() for file in built)
    assert one == other


def test_it_holds_what_is_tracked_and_no_more(built):
    assert contents(built[0]) == tracked()


def test_it_has_the_commits_time_and_plain_modes(built):
    with zipfile.ZipFile(built[0]) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        assert {(entry.external_attr >> 16) & 0o777 for entry in archive.infolist()} <= {0o644, 0o664, 0o755}


def test_installed_it_is_whole(built, tmp_path):
    """Into an empty environment: templates, static files, migrations, models and the bill of materials are there."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", "--no-compile", str(built[0])], check=True)
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", show], check=True, capture_output=True, text=True).stdout.strip())
    for name in (
        "web/templates/parts/alert.html",
        "web/static/dashboard.css",
        "controlplane/db/migrations/versions/0001_initial.py",
        "agents/models/tailwright-py-5m/model.safetensors",
        "agents/engine/ops/kernels/vectors.h",
        "controlplane/sbom.cdx.json",
    ):
        assert (site / name).read_bytes() == (lock_file.ROOT / name).read_bytes()
    installed = {
        str(file.relative_to(site)) for package in PACKAGES for file in (site / package).rglob("*") if file.is_file()
    }
    assert {name for name in installed if "__pycache__" not in name} == tracked()
    assert (environment / "bin/tailwright").is_file()


def test_the_built_wheel_and_its_bill_are_signed(released, key, tmp_path, capsys, monkeypatch):
    of, said = released
    (built,) = of.glob("*.whl")
    (bill,) = of.glob("*.cdx.json")
    assert verify_release.main([f"{key}.pub", str(of)]) == 0
    assert bill.read_bytes() == sbom.FILE.read_bytes() and built.name.startswith(bill.name.removesuffix(".cdx.json"))
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {built.name, bill.name}
    names = (built.name, bill.name, release_signing.SIGNATURE)
    assert [line.split()[0] for line in said] == [str(of / name) for name in names]
    place = Path(copytree(of, tmp_path / "dist"))
    copyfile(bill, place / built.name)
    assert verify_release.main([f"{key}.pub", str(place)]) == 1
    monkeypatch.setattr(wheel, "build", lambda into, time_s: Path(copyfile(built, into / built.name)))
    unsigned = wheel.release(place, TIME_S, None)
    assert "not signed" in unsigned[-1] and not (place / release_signing.SIGNATURE).exists()
