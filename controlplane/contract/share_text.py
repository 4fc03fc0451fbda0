"""Shares as people read them, on pages, in commands and in messages alike."""


def share_text(share: float, digits: int = 0) -> str:
    """96 %: with a space, as ISO 80000-1 writes it."""
    return f"{100.0 * share:.{digits}f} %"
