"""What is kept of servers survives, and what is damaged is not believed."""

from pathlib import Path

import pytest

from agents.backends.vllm.managed.kept_servers import Good, Records, ServerRecord
from controlplane.contract.knobs import EngineConfig

CONFIG = EngineConfig(max_num_seqs=3, num_speculative_tokens=((2, 4), (8, 1)))


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path)
    made.make_folders()
    return made


def record(server_id: str, began: float) -> ServerRecord:
    folder = Path("/run/x")
    return ServerRecord(
        id=server_id, port=8001, folder=folder, log=folder / "log", knobs=CONFIG.knobs(), revision=4, plugin=True,
        cwd=folder, argv=["vllm"], began=began,
    )  # fmt: skip


def test_servers_are_found_again_oldest_first(records: Records) -> None:
    later, earlier = record("s-1", 2.0), record("s-2", 1.0)
    records.write(later)
    records.write(earlier)
    assert records.servers() == [earlier, later]
    assert records.servers()[0].config == CONFIG
    records.forget("s-2")
    records.forget("s-2")
    assert records.servers() == [later]


def test_the_last_good_configuration_is_found_again(records: Records) -> None:
    assert records.good() is None
    records.write_good(Good(revision=4, knobs=CONFIG.knobs(), active="s-1"))
    found = records.good()
    assert found is not None and found.config == CONFIG and found.revision == 4


@pytest.mark.parametrize("content", ["", "{}", '{"revision": 1, "knobs": {"max_num_seqs": -1}}', "\x00"])
def test_a_damaged_file_counts_as_none(records: Records, tmp_path: Path, content: str) -> None:
    (tmp_path / "good.json").write_text(content)
    (tmp_path / "servers/s-1.json").write_text(content)
    assert records.good() is None
    assert records.servers() == []
