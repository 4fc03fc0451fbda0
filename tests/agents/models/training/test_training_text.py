"""The corpus is the same each time, and nothing held out is trained on."""

from pathlib import Path

import pytest

from agents.models.training import training_text
from agents.models.training.training_text import Kind


def _module(name: str) -> str:
    return (
        f'def {name}(value):\n    """Return the {name} of a value.\n\n    More."""\n    return value.{name}_of_it()\n'
        * 3
    )


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    for number in range(100):
        path = root / "package" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_module(f"operation_{number}"))
    (root / "test").mkdir()
    (root / "test" / "test_it.py").write_text("assert True\n")
    (root / "site-packages").mkdir()
    (root / "site-packages" / "foreign.py").write_text(_module("foreign"))
    (root / "package" / "table.py").write_text("TABLE = [" + "1, " * 500 + "]\n")
    (root / "pydoc_data").mkdir()
    (root / "pydoc_data" / "topics.py").write_text(
        "topics = {'assert': 'The assert statement', 'if': 'The if statement'}\n"
    )
    return root


def test_the_same_files_give_the_same_corpus(library: Path) -> None:
    first, second = training_text.build([library]), training_text.build([library])
    assert first == second
    (library / "package" / "module_1.py").write_text(_module("changed"))
    assert training_text.build([library]).sha256 != first.sha256


def test_the_sides_are_disjoint_and_both_present(library: Path) -> None:
    built = training_text.build([library])
    training, held_out = {d.name.split("#")[0] for d in built.training}, {d.name for d in built.held_out}
    assert held_out and not training & held_out
    assert len(held_out) < 0.1 * len(training)


def test_what_is_not_the_librarys_text_stays_out(library: Path) -> None:
    built = training_text.build([library])
    names = {document.name for document in built.training + built.held_out}
    assert not any("site-packages" in name or name.endswith("table.py") for name in names)
    assert {"pydoc_data/topics/assert", "pydoc_data/topics/if"} <= names
    assert {d.name for d in built.training + built.held_out if d.kind is Kind.TEST} == {"test/test_it.py"}


def test_a_copy_of_a_held_out_file_is_not_trained_on(library: Path) -> None:
    held_out = next(
        document for document in training_text.build([library]).held_out if document.name.startswith("package")
    )
    copy = next(name for name in (f"copy_{n}.py" for n in range(9)) if not training_text.is_held_out(name))
    (library / copy).write_text("# Another first line than the other's.\n" + held_out.text)
    assert copy not in {document.name for document in training_text.build([library]).training}


def test_of_two_libraries_the_first_provides_a_name(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "package").mkdir(parents=True)
    (other / "package" / "module_1.py").write_text("second = 'never used here at all'\n")
    (other / "package" / "only_here.py").write_text("only = 'in the second library'\n")
    documents = {d.name: d.text for d in training_text.build([library, other]).training}
    assert "never used" not in documents["package/module_1.py"]
    assert "package/only_here.py" in documents


def test_documented_functions_become_conversations(library: Path) -> None:
    chats = [document for document in training_text.build([library]).training if document.kind is Kind.CHAT]
    assert chats
    assert all("\n<|assistant|>\ndef operation_" in chat.text for chat in chats)
    assert not any(training_text.is_held_out(chat.name.split("#")[0]) for chat in chats)
