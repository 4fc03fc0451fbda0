"""Single tokens as text and as bytes, for log probabilities."""

from functools import lru_cache

from agents.engine.text.tokenizer import TextCodec

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # How SentencePiece spells a space.


class TokenText:
    """Remembers what it has shown."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self.text = lru_cache(maxsize=65536)(self._text)
        self.bytes = lru_cache(maxsize=65536)(self._bytes)

    def _text(self, token: int) -> str:
        """A token by itself; a part of a character shows as the replacement character."""
        text = self._codec.decode([token], skip_special_tokens=False)
        piece = self._codec.piece(token)
        # A decoder may drop the space before a text's first word.
        return " " + text if piece and piece.startswith(_WORD_START) and not text.startswith(" ") else text

    def _bytes(self, token: int) -> list[int] | None:
        """Its bytes, whole characters or not; None where the vocabulary does not say."""
        text: str = self.text(token)
        if _REPLACEMENT not in text:
            return list(text.encode())
        piece = self._codec.piece(token) or ""
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return [int(piece[3:5], 16)]
        if all(character in _BYTE_OF for character in piece):
            return [_BYTE_OF[character] for character in piece]
        return None


def _byte_of() -> dict[str, int]:
    """How byte-level BPE spells bytes: printable ones as themselves, the others as characters from U+0100 on (Radford
    et al. 2019, GPT-2's encoder).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelt = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return spelt | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_OF = _byte_of()
