"""The shipped folders: they load, are small, write Python, and their cards say what their records say."""

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer

from agents.models.training import evaluate, model_card, model_folder, readability, speculation, training_text
from agents.models.training.__main__ import DRAFT, TARGET

FOLDERS = [pytest.param(TARGET, id="target"), pytest.param(DRAFT, id="draft")]
SNIPPET = '''import os


class Stack:
    """A last-in, first-out container."""

    def __init__(self, items=()):
        self._items = list(items)

    def __len__(self):
        return len(self._items)

    def push(self, item):
        self._items.append(item)

    def pop(self):
        if not self._items:
            raise IndexError("pop from an empty stack")
        return self._items.pop()


def read_lines(path, encoding="utf-8"):
    """Return the lines of the file."""
    with open(path, encoding=encoding) as file:
        return [line.rstrip() for line in file]


if __name__ == "__main__":
    print(os.getcwd())
'''


def test_both_fit_in_25_megabytes_with_one_tokenizer() -> None:
    assert sum(path.stat().st_size for root in (TARGET, DRAFT) for path in root.iterdir()) <= 25_000_000
    assert (TARGET / "tokenizer.json").read_bytes() == (DRAFT / "tokenizer.json").read_bytes()
    sizes = [model_folder.read_json(root / "training.json")["parameters"] for root in (TARGET, DRAFT)]
    assert 0.05 < sizes[1] / sizes[0] < 0.15


@pytest.mark.parametrize("path", FOLDERS)
def test_transformers_loads_every_weight(path: Path) -> None:
    model, report = transformers.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
    assert not any(report.values()), report
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    assert len(tokenizer) == model.config.vocab_size == 4096
    assert model.config.eos_token_id == tokenizer.eos_token_id == 0


@pytest.mark.parametrize("path", FOLDERS)
def test_the_card_is_what_the_records_say(path: Path, tmp_path: Path) -> None:
    record = model_folder.read_json(path / "evaluation.json")
    card = (path / "README.md").read_text(encoding="utf-8")
    library, drafted = record["held_out"]["library"], record["speculation"]
    assert f"**{library['nats_per_token']} nats per token**, {library['bits_per_byte']} bits per byte" in card
    assert f"| {drafted['ngram']['acceptance']:.3f} |" in card
    assert f"| {drafted['draft_model']['acceptance']:.3f} |" in card
    copy = tmp_path / path.name
    copy.mkdir()
    for name in ("training.json", "evaluation.json"):
        (copy / name).write_bytes((path / name).read_bytes())
    model_card.write(copy, training_text.HELD_OUT_PERCENT)
    assert (copy / "README.md").read_text(encoding="utf-8") == card


@pytest.mark.parametrize("path", FOLDERS)
def test_the_training_is_over_and_was_measured_on_its_own_held_out_files(path: Path) -> None:
    training, evaluation = (
        model_folder.read_json(path / "training.json"),
        model_folder.read_json(path / "evaluation.json"),
    )
    assert training["finished"]
    assert training["corpus_sha256"] == evaluation["corpus_sha256"]
    documents = [document for side in evaluation["held_out"].values() for document in side["documents"]]
    assert documents and all(training_text.is_held_out(document["name"]) for document in documents)


@pytest.mark.parametrize("path", FOLDERS)
def test_the_recorded_loss_is_found_again(path: Path) -> None:
    """On held-out files that this Python has unchanged; where it has none, a snippet must be near the recorded loss."""
    recorded = model_folder.read_json(path / "evaluation.json")["held_out"]
    by_digest = {document["sha256"]: document for side in recorded.values() for document in side["documents"]}
    model, tokenizer = evaluate.load_model(path), Tokenizer.from_file(str(path / "tokenizer.json"))
    found = 0
    for name in sorted(document["name"] for document in by_digest.values() if document["tokens"] < 4000):
        file = training_text.running_library() / name
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        document = training_text.Document(name, text, training_text.Kind.LIBRARY)
        if (row := by_digest.get(document.sha256)) is not None and found < 5:
            nats, tokens = evaluate.document_nats(model, tokenizer, text)
            assert tokens == row["tokens"]
            assert nats / tokens == pytest.approx(row["nats"] / row["tokens"], abs=0.01)
            found += 1
    if not found:
        nats, tokens = evaluate.document_nats(model, tokenizer, SNIPPET)
        assert nats / tokens < recorded["library"]["nats_per_token"] + 0.5


@pytest.mark.slow
def test_the_target_writes_recognisable_python() -> None:
    model, tokenizer = evaluate.load_model(TARGET), Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    headers = [
        f"def {name}({arguments}):\n"
        for name in ("add", "read_header", "close", "_parse_line", "get_value", "test_empty", "__eq__")
        for arguments in ("self, other", "self, name, default=None", "path, encoding")
    ]
    shares = []
    for header in headers:
        ids = tokenizer.encode(header).ids
        shares.append(readability.readable_share(tokenizer.decode(ids + speculation.greedy(model, ids, 64))))
    assert sum(share >= 0.5 for share in shares) >= 0.8 * len(shares), shares


def test_speculation_pays_on_the_bundled_pair() -> None:
    drafted = model_folder.read_json(TARGET / "evaluation.json")["speculation"]
    assert drafted["draft_length"] == 4
    assert drafted["ngram"]["tokens_per_step"] > 1.2
    assert drafted["draft_model"]["tokens_per_step"] > 1.5
    assert model_folder.read_json(TARGET / "evaluation.json")["held_out"]["library"]["nats_per_token"] < 3.0
