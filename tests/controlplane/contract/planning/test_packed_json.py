"""A packed document comes back as it was; what was not packed so, or is larger than it may be, is refused."""

import base64
import zlib

import pytest

from controlplane.contract.planning.packed_json import packed_json, unpacked_json

DOCUMENT = [{"about": "é", "rows": [[1.5, 2], []]}, None]


def test_a_document_comes_back() -> None:
    assert unpacked_json(packed_json(DOCUMENT), 1000) == DOCUMENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        base64.b64encode(b"plain").decode(),
        base64.b64encode(zlib.compress(b"{")).decode(),
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        base64.b64encode(zlib.compress(b"[1, 2]")[:-6]).decode(),
        packed_json("x" * 10**6),
    ],
)
def test_what_is_none_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unpacked_json(text, 500_000)
