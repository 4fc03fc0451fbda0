"""A log stays bounded while it is written to."""

from pathlib import Path

from agents.backends.vllm.managed import server_log


def test_a_log_that_is_appended_to_stays_bounded_and_keeps_its_end(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    written = 0
    with path.open("ab", buffering=0) as file:
        for _ in range(40):
            for _ in range(10):
                file.write(b"line %06d\n" % written)
                written += 1
            server_log.trim(path, 2048)
            assert path.stat().st_size <= 1024
            assert not server_log.older(path).exists() or server_log.older(path).stat().st_size <= 1024
    lines = server_log.tail(path).splitlines()
    numbers = [int(line.split()[1]) for line in lines[1:]]
    assert numbers == list(range(written - len(numbers), written))
    assert len(numbers) > 50


def test_without_a_log_there_is_nothing(tmp_path: Path) -> None:
    server_log.trim(tmp_path / "none", 100)
    assert server_log.tail(tmp_path / "none") == ""
