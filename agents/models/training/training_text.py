"""The training text: the Python standard library's sources and documentation, the same bytes each time.

Guarantees: the documents of given library folders come in one order with one digest; a document is held out or
trained on by the hash of its relative path alone, so that the same module of two Python versions never lies on both
sides; a training document that repeats much of a held-out one under another name is dropped; test suites are kept
apart from the library, so that the sampler can weigh them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

HELD_OUT_PERCENT = 3
_SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "__pycache__", "lib-dynload", "data", "decimaltestdata"}
)
_TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
_ODD_CHARACTERS = re.compile(r"[\d\\]|[^\x00-\x7f]")
_LEAST_LINE_CHARS = 20
_MOST_SHARED_LINES = 0.3


class Kind(Enum):
    """Where a document comes from; the sampler gives each kind a weight."""

    LIBRARY = "library"  # Modules and the documentation topics.
    TEST = "test"  # The library's own test suites.
    CHAT = "chat"  # Instructions made from documented functions of training documents.


@dataclass(frozen=True)
class Document:
    """One file or documentation topic; `name` is its path relative to the library folder, with forward slashes."""

    name: str
    text: str
    kind: Kind

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Training and held-out documents, disjoint, and the SHA-256 over both sides' names and texts."""

    training: tuple[Document, ...]
    held_out: tuple[Document, ...]
    sha256: str


def running_library() -> Path:
    """The standard library folder of the Python that runs this."""
    return Path(sysconfig.get_path("stdlib"))


def is_held_out(name: str) -> bool:
    """Whether a document of this name is kept from training: 3 % of names, by hash."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100 < HELD_OUT_PERCENT


def build(libraries: Sequence[Path] = ()) -> Corpus:
    """The corpus of library folders (default: the running Python's); of one name in several, the first counts."""
    documents: dict[str, Document] = {}
    for library in libraries or (running_library(),):
        for document in _documents(library):
            documents.setdefault(document.name, document)
    ordered = [documents[name] for name in sorted(documents)]
    held_out = tuple(document for document in ordered if is_held_out(document.name))
    candidates = [document for document in ordered if not is_held_out(document.name)]
    kept = tuple(_without_copies(candidates, held_out))
    training = kept + tuple(chat for document in kept for chat in _conversations(document))
    digest = hashlib.sha256()
    for document in training + held_out:
        digest.update(f"{document.name}\0{document.sha256}\n".encode())
    return Corpus(training, held_out, digest.hexdigest())


def _documents(library: Path) -> Iterator[Document]:
    for path in sorted(library.rglob("*")):
        name = PurePosixPath(path.relative_to(library))
        if path.suffix not in {".py", ".rst", ".txt"} or _SKIPPED_FOLDERS & set(name.parts) or path.is_symlink():
            continue
        tested = bool(_TEST_FOLDERS & set(name.parts))
        if path.name.startswith("_sysconfigdata") or (path.suffix == ".txt" and tested):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if str(name) == "pydoc_data/topics.py":
            yield from _topics(text)
        elif not _is_table(text):
            yield Document(str(name), text, Kind.TEST if tested else Kind.LIBRARY)


def _topics(source: str) -> Iterator[Document]:
    """Each topic of the language reference that `help()` shows is a document."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            topics: dict[str, str] = ast.literal_eval(node.value)
            for topic, text in sorted(topics.items()):
                yield Document(f"pydoc_data/topics/{topic}", text, Kind.LIBRARY)


def _is_table(text: str) -> bool:
    """Code pages and data tables teach nothing about Python: many digits, escapes or characters beyond ASCII."""
    odd = len(_ODD_CHARACTERS.findall(text))
    return not text.strip() or odd > 0.12 * len(text) or "codecs.charmap_decode(" in text


def _telling_lines(document: Document) -> frozenset[str]:
    return frozenset(line for line in map(str.strip, document.text.splitlines()) if len(line) >= _LEAST_LINE_CHARS)


def _without_copies(candidates: Sequence[Document], held_out: Sequence[Document]) -> Iterator[Document]:
    kept_away = [lines for lines in map(_telling_lines, held_out) if lines]
    for document in candidates:
        lines = _telling_lines(document)
        if all(len(lines & away) <= _MOST_SHARED_LINES * len(away) for away in kept_away):
            yield document


def _conversations(document: Document) -> Iterator[Document]:
    """Documented functions as an instruction and its answer, so that the chat template means something to the model."""
    if document.kind is not Kind.LIBRARY or not document.name.endswith(".py"):
        return
    try:
        tree = ast.parse(document.text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            source = ast.get_source_segment(document.text, node, padded=True)
            if source and len(source) < 3000:
                asked = " ".join(docstring.split("\n\n")[0].split())
                text = f"<|user|>\nWrite {node.name}: {asked}\n<|assistant|>\n{source}\n"
                yield Document(f"{document.name}#{node.name}:{node.lineno}", text, Kind.CHAT)
