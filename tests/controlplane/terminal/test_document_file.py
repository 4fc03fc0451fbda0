"""A person's document: what is read as it stands, and what no service could be sent."""

from pathlib import Path

import pytest
import typer

from controlplane.terminal.document_file import read_document


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", b'{"pool": "chat", "load": 2}'),
        ("bom.json", b'\xef\xbb\xbf{"pool": "chat", "load": 2}'),
        ("crlf.toml", b'pool = "chat"\r\nload = 2\r\n'),
        ("bom.toml", b'\xef\xbb\xbfpool = "chat"\nload = 2\n'),
    ],
)
def test_a_document_is_what_its_file_says(name: str, text: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text)
    assert read_document(tmp_path / name) == {"pool": "chat", "load": 2}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("utf16.json", '{"a": 1}'.encode("utf-16"), "is no text in UTF-8; save it as that"),
        ("utf16.toml", "a = 1".encode("utf-16"), "is no text in UTF-8; save it as that"),
        ("deep.json", b"[" * 100_000, "cannot be read: maximum recursion depth"),
        ("list.json", b"[1]", "wants a JSON object, got list"),
        ("nan.json", b'{"also": [{"q": NaN}]}', "also.0.q: JSON has no nan; write a finite number, or text in quotes"),
        ("inf.toml", b"load = inf", "load: JSON has no inf; write a finite number"),
        ("day.toml", b"[online]\nuntil = 2026-01-01\n", "online.until: JSON has no 2026-01-01; write"),
    ],
)
def test_what_is_no_document_is_told_with_its_place(
    name: str, text: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(typer.Exit):
        read_document(tmp_path / name)
    told = capsys.readouterr().err
    assert told.startswith("file: ") and said in told
