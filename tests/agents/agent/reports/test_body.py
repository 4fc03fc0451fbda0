"""Bodies are compressed once and come back as they were; damage is told as what it is."""

import pytest

from agents.agent.reports.body import GZIP, ZSTD, Body, BodyUnreadable
from controlplane.contract.reports.packed_report import MEDIA_TYPE

TEXT = b"the same bytes again and again " * 40


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (Body.otlp(TEXT), {"Content-Type": "application/x-protobuf", "Content-Encoding": GZIP}),
        (Body.packed(TEXT, with_zstd=False), {"Content-Type": MEDIA_TYPE, "Content-Encoding": GZIP}),
        (Body.packed(TEXT), {"Content-Type": MEDIA_TYPE, "Content-Encoding": ZSTD}),
    ],
)
def test_a_body_comes_back_and_says_what_it_is(body: Body, headers: dict[str, str]) -> None:
    assert body.decoded() == TEXT
    assert body.headers == headers
    assert len(body.content) < len(TEXT) / 5
    assert body.is_packed == (headers["Content-Type"] == MEDIA_TYPE)


def test_the_same_message_is_the_same_bytes() -> None:
    assert Body.otlp(TEXT) == Body.otlp(TEXT) and Body.packed(TEXT) == Body.packed(TEXT)


@pytest.mark.parametrize("encoding", [GZIP, ZSTD, "br"])
@pytest.mark.parametrize("content", [b"nonsense", Body.otlp(TEXT).content[:-9], Body.packed(TEXT).content[:-9]])
def test_what_cannot_be_read_is_named(encoding: str, content: bytes) -> None:
    with pytest.raises(BodyUnreadable):
        Body(content, MEDIA_TYPE, encoding).decoded()


def test_zstd_without_the_package_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body.packed(TEXT)
    monkeypatch.setattr("agents.agent.reports.body.HAS_ZSTD", False)
    with pytest.raises(BodyUnreadable, match="zstandard is not installed"):
        body.decoded()
