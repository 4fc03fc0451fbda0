"""Shares as people read them, on pages, in commands and in messages alike."""

MOST_TOLD = 100.0
"""So many times the whole; what is beyond, either way, is said to be."""


def share_text(share: float, digits: int = 0) -> str:
    """96 %: with a space, as ISO 80000-1 writes it. Over 10,000 % and under -10,000 % are not told to the digit."""
    if abs(share) > MOST_TOLD:
        return f"{'over ' if share > 0 else 'under -'}{100.0 * MOST_TOLD:,.0f} %"
    return f"{round(100.0 * share, digits) + 0.0:.{digits}f} %"  # Plus nothing: no "-0 %".
