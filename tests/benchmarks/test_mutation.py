"""The table of the cores is true, and a module's tests are run as it says, on the copy."""

from pathlib import Path

import pytest

from benchmarks.mutation import ROOT, Core, Score, copy_checkout, cores, run_tests, table
from benchmarks.mutation_measures.mutants import Mutant


@pytest.mark.parametrize("core", cores(), ids=lambda core: core.module)
def test_each_module_of_a_core_has_its_mirror(core: Core) -> None:
    assert (ROOT / core.module).is_file()
    mirror = Path("tests") / Path(core.module).parent / f"test_{Path(core.module).name}"
    assert str(mirror) in core.tests
    assert [name for name in core.tests if name.startswith("tests/") and not (ROOT / name).is_file()] == []


@pytest.mark.slow
def test_a_mistake_is_seen_and_the_module_as_it_is_passes(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    module = "agents/engine/scheduling/lazy_heap.py"
    core = Core(module, ("tests/agents/engine/scheduling/test_lazy_heap.py",))
    assert run_tests(tmp_path, core) == 0
    source = (tmp_path / module).read_text(encoding="utf-8")
    (tmp_path / module).write_text(source.replace("return", "assert False; return"), encoding="utf-8")
    assert run_tests(tmp_path, core) == 1


@pytest.mark.slow
def test_tests_that_do_not_import_the_module_say_nothing_of_it(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    core = Core("tuner/search/objective.py", ("tests/agents/engine/scheduling/test_lazy_heap.py",))
    assert run_tests(tmp_path, core) == 3


@pytest.mark.slow
def test_what_only_many_repeats_see_is_seen_at_length(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    core = Core("tests/soak.py", ("tests/test_repeats.py",))
    repeats = "from tests.soak import soak\n\n\ndef test_repeats() -> None:\n    assert soak(1, 2) == 1\n"
    (tmp_path / "tests/test_repeats.py").write_text(repeats, encoding="utf-8")
    assert [run_tests(tmp_path, core, at_length=long) for long in (False, True)] == [0, 1]


def test_the_table_counts_equivalent_mutants_apart() -> None:
    one, other = (Mutant(number, "f", "a", "b", "") for number in (1, 2))
    core = Core("m.py", (), {one.name: "no difference"})
    said = table([Score(core, 10, (other,), (one, one))])
    assert "| m.py | 10 | 1 | 2 |" in said and "| all | 10 | 1 (12.5%) | 2 |" in said
    assert "m.py, f: `a` -> `b`: no difference" in said
