"""Static files under names that change with their content, compressed beforehand (RFC 9110, section 12.5.3; RFC 8246).

Guarantee: an address `/assets/NAME.HASH.EXT` means the same bytes for ever, so a browser fetches it once; a module's
imports name their modules by such addresses, too. Nothing but the files of `static/` is served, whatever is asked for.
"""

import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import cramjam

PREFIX = "/assets/"
KEPT = "public, max-age=31536000, immutable"
"""Cache-Control of every asset: a year, and not asked for again meanwhile."""

MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MEDIA_TYPES |= {".json": "application/speculationrules+json"}
HASH_LENGTH = 12
_IMPORT = re.compile(r'^(import\b[^"\n]*?|export\b[^"\n]*?\bfrom\s*)"\./(?P<name>[\w.-]+\.js)";', re.MULTILINE)


@dataclass(frozen=True)
class Asset:
    """One file as it is served. `bodies`: bytes by content coding, "identity" among them."""

    path: str
    media_type: str
    bodies: Mapping[str, bytes]


class Assets:
    """All files of a folder and those below it, by their own names and by the names under which they are served."""

    def __init__(self, folder: Path) -> None:
        self._files = {file.name: file for file in sorted(folder.rglob("*")) if file.suffix in MEDIA_TYPES}
        self._by_name: dict[str, Asset] = {}
        for name in self._files:
            self._add(name, ())
        self._by_path = {asset.path: asset for asset in self._by_name.values()}

    def address(self, name: str) -> str:
        """Where the file `name` is served. Raises `KeyError` for one that there is not."""
        return self._by_name[name].path

    def text(self, name: str) -> str:
        """What stands in the file `name`. Raises `KeyError` for one that there is not."""
        return self._by_name[name].bodies["identity"].decode()

    def found(self, path: str) -> Asset | None:
        return self._by_path.get(path)

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._by_name.values())

    def _add(self, name: str, within: tuple[str, ...]) -> str:
        """Reads `name`, after the modules that it imports, for its hash is also of theirs. Answers its address."""
        if name in within:
            raise ValueError(f"{name}: modules import each other in a circle: {' -> '.join((*within, name))}")
        if name not in self._by_name:
            file = self._files[name]
            body = file.read_bytes()
            if file.suffix == ".js":
                body = self._with_addresses(body.decode(), (*within, name)).encode()
            self._by_name[name] = _asset(file, body)
        return self._by_name[name].path

    def _with_addresses(self, source: str, within: tuple[str, ...]) -> str:
        return _IMPORT.sub(lambda found: f'{found[1]}"{self._add(found["name"], within)}";', source)


def chosen(accept_encoding: str, offered: Iterable[str]) -> str:
    """The first of `offered` codings that the header allows; "identity" where it allows none of them."""
    weights: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.partition(";")
        weights[coding.strip()] = _weight(weight)
    usual = weights.get("*", 0.0)
    return next((coding for coding in offered if weights.get(coding, usual) > 0), "identity")


def _weight(parameter: str) -> float:
    """Of "q=0.5"; 1 where nothing is said, 0 for what is no number."""
    name, _, value = parameter.partition("=")
    if not name.strip():
        return 1.0
    try:
        return float(value) if name.strip() == "q" else 1.0
    except ValueError:
        return 0.0


def _asset(file: Path, body: bytes) -> Asset:
    mark = hashlib.sha256(body).hexdigest()[:HASH_LENGTH]
    packed = {
        "br": bytes(cramjam.brotli.compress(body, level=11)),
        "gzip": gzip.compress(body, compresslevel=9, mtime=0),
        "identity": body,
    }
    return Asset(path=f"{PREFIX}{file.stem}.{mark}{file.suffix}", media_type=MEDIA_TYPES[file.suffix], bodies=packed)


ASSETS = Assets(Path(__file__).parent.parent / "static")
