"""Values as people write them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from controlplane.contract.errors import BadSettings
from controlplane.terminal.setting_values import Bytes, Pairs, pairs_in_file, words_of


@pytest.mark.parametrize(
    ("written", "read"),
    [("256M", 256 * 2**20), ("1.5G", 3 * 2**29), ("2k", 2000), ("7", 7), (7, 7), ("1t", 10**12), ("1K", 1024)],
)
def test_bytes_are_vllms(written: Any, read: int) -> None:
    assert TypeAdapter(Bytes).validate_python(written) == read


@pytest.mark.parametrize("written", ["M", "1MB", "many", "1.5", "-1M"])
def test_what_is_no_number_of_bytes_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Bytes).validate_python(written)


@pytest.mark.parametrize(
    "written",
    [
        ["Authorization=Bearer a=b", "X = 1"],
        '{"Authorization": "Bearer a=b", "X": "1"}',
        {"Authorization": "Bearer a=b", "X": "1"},
    ],
)
def test_pairs_come_from_flags_variables_and_tables(written: Any) -> None:
    assert TypeAdapter(Pairs).validate_python(written) == {"Authorization": "Bearer a=b", "X": "1"}


@pytest.mark.parametrize("written", [["a"], ["=a"], "Bearer", "{", [1]])
def test_what_is_no_pair_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Pairs).validate_python(written)


def test_words() -> None:
    assert words_of("none,int8") == ("none", "int8") and words_of(["none"]) == ["none"]


def test_pairs_of_a_file_of_secrets(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    assert pairs_in_file(None, "f") == {}
    with pytest.raises(BadSettings, match=r"f: .*headers is not there"):
        pairs_in_file(file, "f")
    file.write_text("# remark\n\nAuthorization=Bearer a=b\n X-Scope = c \n")
    file.chmod(0o600)
    assert pairs_in_file(file, "f") == {"Authorization": "Bearer a=b", "X-Scope": "c"}
    file.write_text("Authorization: the-token")
    with pytest.raises(BadSettings, match="wants NAME=VALUE in each line") as refused:
        pairs_in_file(file, "f")
    assert "the-token" not in str(refused.value)
