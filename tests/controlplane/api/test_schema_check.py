"""schemathesis finds nothing on a real server: a short run with a fixed seed (`make schemathesis` is the long one)."""

import re
from pathlib import Path

import pytest

from benchmarks.api_schema import check, served
from tests.soak import soak

pytestmark = pytest.mark.slow


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_service_does_what_its_document_says(tmp_path: Path) -> None:
    with served(tmp_path) as at:
        outcome = check(at, 1, "--phases", "examples,fuzzing", "--max-examples", str(soak(1, 2)), captured=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    asked = re.search(r"(\d+) selected / (\d+) total", outcome.stdout)
    assert asked is not None and asked[1] == asked[2] and int(asked[1]) > 100, "every operation is asked"
