"""One process at a time serves the folder's socket; what a dead one left is in nobody's way."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tailwright_vllm.served_socket import LONGEST_PATH_BYTES, ServedSocket

HOLDER = """
import sys
from pathlib import Path
from tailwright_vllm.served_socket import ServedSocket
held = ServedSocket(Path(sys.argv[1]))
print(held.hold() is not None, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedSocket]:
    made = ServedSocket(tmp_path)
    yield made
    made.release()


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def test_it_is_made_once_for_its_user_alone(served: ServedSocket) -> None:
    listener = served.hold()
    assert listener is not None and served.hold() is listener
    assert served.path.stat().st_mode & 0o777 == 0o600 and _connects(served.path)


def test_a_removed_socket_is_made_again(served: ServedSocket) -> None:
    first = served.hold()
    served.path.unlink()
    assert served.hold() is not first and _connects(served.path)


def test_a_removed_folder_is_made_again(tmp_path: Path) -> None:
    served = ServedSocket(tmp_path / "share")
    served.hold()
    for left in (tmp_path / "share").iterdir():
        left.unlink()
    (tmp_path / "share").rmdir()
    assert served.hold() is not None and _connects(served.path)
    served.release()


def test_something_else_in_its_place_is_replaced(served: ServedSocket) -> None:
    served.path.write_text("left behind")
    assert served.hold() is not None and _connects(served.path)


def test_another_process_holds_it_until_it_dies(tmp_path: Path, served: ServedSocket) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "agents" / "vllm_plugin")},
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        assert served.hold() is None and _connects(served.path)  # Its socket is left alone.
        other.kill()
        other.wait(60.0)
    assert not _connects(served.path)
    assert served.hold() is not None and _connects(served.path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        ServedSocket(tmp_path / "file" / "share").hold()


def test_a_path_too_long_for_a_socket_is_refused_with_its_length(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=str(LONGEST_PATH_BYTES)):
        ServedSocket(tmp_path / ("x" * LONGEST_PATH_BYTES))


def test_released_it_is_gone(served: ServedSocket) -> None:
    served.hold()
    served.release()
    assert not served.path.exists()
