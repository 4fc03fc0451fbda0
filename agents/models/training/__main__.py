"""`python -m agents.models.training train | evaluate | card`: the bundled model, from the text to its card."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from agents.models.training import evaluate, model_card, model_folder, train, training_text, vocabulary
from agents.models.training.trained_decoder import DRAFT_SHAPE, TARGET_SHAPE

MODELS = Path(__file__).resolve().parents[1]
TARGET = MODELS / "tailwright-py-5m"
DRAFT = MODELS / "tailwright-py-5m-draft"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.models.training", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument(
        "--library",
        type=Path,
        action="append",
        default=[],
        help="a standard library folder; repeatable, the first with a file provides it (default: the running Python's)",
    )
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="train the target, or its draft")
    training.add_argument("--role", choices=("target", "draft"), default="target")
    training.add_argument("--max-minutes", type=float, default=75.0, help="wall-clock budget; the schedule follows it")
    training.add_argument("--seed", type=int, default=7300)
    training.add_argument("--step-tokens", type=int, default=8192, help="tokens in an optimizer step")
    training.add_argument("--out", type=Path, help="model folder to write (default: the bundled one)")
    training.add_argument("--teacher", type=Path, help="a target's folder to distill a draft from")
    training.add_argument(
        "--start", type=Path, help="a folder of the same shape to begin with, instead of random weights"
    )
    training.add_argument("--state", type=Path, help="file to keep optimizer state in, and to resume from")
    training.set_defaults(run=_train)
    evaluating = commands.add_parser("evaluate", help="write evaluation.json beside the target and its draft")
    evaluating.set_defaults(run=_evaluate)
    describing = commands.add_parser("card", help="write README.md of both from their records")
    describing.set_defaults(run=_describe)
    for command in (evaluating, describing):
        command.add_argument("--target", type=Path, default=TARGET)
        command.add_argument("--draft", type=Path, default=DRAFT)
    return parser


def _train(options: argparse.Namespace) -> None:
    texts = training_text.build(options.library)
    shape, default = (TARGET_SHAPE, TARGET) if options.role == "target" else (DRAFT_SHAPE, DRAFT)
    teacher = tokenizer = None
    if options.teacher:
        teacher, tokenizer = model_folder.read(options.teacher)
    elif options.state and options.state.exists():
        tokenizer = Tokenizer.from_file(str((options.out or default) / "tokenizer.json"))
    else:
        tokenizer = vocabulary.train(d.text for d in texts.training if d.kind is training_text.Kind.LIBRARY)
    provenance: dict[str, object] = {
        "libraries": [p.name for p in options.library or [training_text.running_library()]]
    }
    if options.teacher:
        provenance["teacher"] = options.teacher.name
    start = None
    if options.start:
        start, tokenizer = model_folder.read(options.start)
        before = model_folder.read_json(options.start / model_folder.TRAINING_RECORD)
        provenance["before"] = {key: before[key] for key in ("steps", "tokens", "wall_minutes")}
    train.train(
        train.Plan(shape, options.max_minutes, options.seed, step_tokens=options.step_tokens),
        texts,
        tokenizer,
        options.out or default,
        state=options.state,
        teacher=teacher,
        start=start,
        provenance=provenance,
        report=_report,
    )


def _evaluate(options: argparse.Namespace) -> None:
    evaluate.evaluate(options.target, options.draft, training_text.build(options.library))


def _describe(options: argparse.Namespace) -> None:
    for path in (options.target, options.draft):
        model_card.write(path, training_text.HELD_OUT_PERCENT)


def _report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
