"""Files of secrets are read where they are this user's alone, or were mounted for it."""

import os
from pathlib import Path

import pytest

from controlplane.contract.errors import BadSettings
from controlplane.serving import owned_files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    owned_files.write(tmp_path / "secret", "text\n")
    return tmp_path / "secret"


def test_what_is_written_is_read_and_private(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert owned_files.read(file, "f") == "text\n"
    owned_files.write(file, "other")
    assert owned_files.read(file, "f") == "other"
    assert sorted(path.name for path in file.parent.iterdir()) == ["secret"]
    assert owned_files.read(file.with_name("none"), "f") is None


def test_a_mode_that_lets_others_read_is_tightened(file: Path) -> None:
    file.chmod(0o644)
    assert owned_files.read(file, "f") == "text\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_mounted_may_be_a_link_and_a_group_s(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    with pytest.raises(BadSettings, match=r"f: .*link is a symbolic link: remove it"):
        owned_files.read(link, "f")
    file.chmod(0o440)
    assert owned_files.read(link, "f", mounted=True) == "text\n"
    assert file.stat().st_mode & 0o777 == 0o440
    file.chmod(0o444)
    with pytest.raises(BadSettings, match="may be read by everybody: chmod 600 it, or 440"):
        owned_files.read(link, "f", mounted=True)


def test_a_link_to_nowhere_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for mounted in (False, True):
        with pytest.raises(BadSettings, match=r"is a (symbolic )?link"):
            owned_files.read(tmp_path / "link", "f", mounted=mounted)
    with pytest.raises(BadSettings, match="is a symbolic link"):
        owned_files.touch(tmp_path / "link", "f")
    assert not (tmp_path / "gone").exists()


def test_what_is_no_text_of_ours_is_refused(file: Path) -> None:
    for content in (b"\xff", b"x" * (owned_files.LONGEST + 1)):
        file.write_bytes(content)
        with pytest.raises(BadSettings, match="is no file of this service"):
            owned_files.read(file, "f")
    with pytest.raises(BadSettings, match="is no file"):
        owned_files.read(file.parent, "f")


def test_a_write_does_not_follow_a_planted_link(file: Path) -> None:
    victim = file.with_name("victim")
    victim.write_text("keep")
    file.with_name("secret.new").symlink_to(victim)
    owned_files.write(file, "new")
    assert victim.read_text() == "keep" and owned_files.read(file, "f") == "new"


def test_touch_makes_a_private_file_and_keeps_what_is_there(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        owned_files.touch(tmp_path / "db", "f")
    finally:
        os.umask(before)
    assert (tmp_path / "db").stat().st_mode & 0o777 == 0o600
    (tmp_path / "db").write_text("kept")
    owned_files.touch(tmp_path / "db", "f")
    assert (tmp_path / "db").read_text() == "kept"
