"""A run of seconds learns, writes a folder that transformers loads with the same logits, and resumes."""

from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer

from agents.models.training import model_folder, train, training_text, vocabulary
from agents.models.training.trained_decoder import Decoder, Shape
from agents.models.training.training_batches import Sampler
from agents.models.training.training_text import Corpus

SHAPE = Shape(32, 2, 64, 2, 1, 16, vocab_size=400, max_position_embeddings=128)


def _plan(**changes: object) -> train.Plan:
    settings = {
        "step_tokens": 256,
        "micro_batch_tokens": 256,
        "length": 32,
        "long_length": 128,
        "max_steps": 40,
    } | changes
    return train.Plan(SHAPE, 1.0, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def texts() -> Corpus:
    return training_text.build([training_text.running_library() / "json", training_text.running_library() / "wsgiref"])


@pytest.fixture(scope="module")
def tokenizer(texts: Corpus) -> Tokenizer:
    return vocabulary.train((document.text for document in texts.training), SHAPE.vocab_size)


@pytest.fixture(scope="module")
def trained(texts: Corpus, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    train.train(_plan(), texts, tokenizer, path, report=lambda _: None)
    return path


@pytest.mark.slow
def test_the_loss_falls(trained: Path, texts: Corpus, tokenizer: Tokenizer) -> None:
    model, _ = model_folder.read(trained)
    windows = Sampler(texts.training, tokenizer, 1).batch(8, 32)
    torch.manual_seed(0)
    assert train.mean_loss(model, windows) < train.mean_loss(Decoder(SHAPE), windows) - 0.5


def test_the_record_says_what_was_done(trained: Path, texts: Corpus) -> None:
    record = model_folder.read_json(trained / "training.json")
    assert record["steps"] == 40 and record["tokens"] == 40 * 256 and record["finished"]
    assert record["corpus_sha256"] == texts.sha256


def test_transformers_loads_the_folder_with_the_same_logits(trained: Path) -> None:
    ours, _ = model_folder.read(trained)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(trained, output_loading_info=True)
    assert not any(report.values()), report
    tokens = torch.randint(0, SHAPE.vocab_size, (2, 100))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-4)


def test_the_tokenizer_round_trips_any_text(trained: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained)
    text = "class Café:\n\tdef f(self):  # λ → 🙂\n        return '\\x00'\r\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_token_id == tokenizer.bos_token_id == tokenizer.pad_token_id == 0
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|user|>\nHi\n<|assistant|>\n"
    assert len(tokenizer.encode("<|user|>")) == 1


def test_the_same_seed_gives_the_same_batches(texts: Corpus, tokenizer: Tokenizer) -> None:
    first, second = (Sampler(texts.training, tokenizer, 5) for _ in range(2))
    assert all(torch.equal(first.batch(4, 16), second.batch(4, 16)) for _ in range(50))


@pytest.mark.slow
def test_a_stopped_run_resumes_where_it_was(texts: Corpus, tokenizer: Tokenizer, tmp_path: Path) -> None:
    plan = _plan()
    first = train.Run(plan)
    sampler = Sampler(texts.training, tokenizer, 1)
    for _ in range(3):
        first.step(sampler)
    first.minutes = 0.01
    first.save_state(tmp_path / "state.pt")
    second = train.Run(plan)
    second.load_state(tmp_path / "state.pt")
    windows = sampler.batch(4, 32)
    assert (second.steps, second.tokens, second.minutes) == (3, 3 * 256, 0.01)
    assert train.mean_loss(second.model, windows) == train.mean_loss(first.model, windows)
    record = train.train(plan, texts, tokenizer, tmp_path / "model", state=tmp_path / "state.pt", report=lambda _: None)
    assert record["steps"] == 40


@pytest.mark.slow
def test_time_ends_a_run(texts: Corpus, tokenizer: Tokenizer, tmp_path: Path) -> None:
    plan = train.Plan(
        SHAPE, 0.01, step_tokens=64, micro_batch_tokens=64, length=32, long_length=64, checkpoint_minutes=0.001
    )
    record = train.train(plan, texts, tokenizer, tmp_path, report=lambda _: None)
    assert record["finished"] and record["steps"] > 1


@pytest.mark.slow
def test_a_draft_learns_its_teachers_distribution(trained: Path, texts: Corpus, tokenizer: Tokenizer) -> None:
    teacher, _ = model_folder.read(trained)
    run = train.Run(_plan(seed=3), teacher)
    sampler = Sampler(texts.training, tokenizer, 2)
    losses = [run.step(sampler) for _ in range(30)]
    assert losses[-1] < losses[0]
