"""How long something took, as people read it: the same words on a page, in a terminal and in an alert.

Guarantee: three significant digits (whole seconds from 100 s on), in the largest unit in which that is 1 or more.
"""


def duration_text(seconds: float) -> str:
    """0.0123 as "12.3 ms", 1.6458 as "1.65 s", 250 as "250 s"."""
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    if seconds >= 100:
        return f"{seconds:.0f} s"
    whole = float(f"{seconds:.3g}")
    if whole >= 1:
        # Zeros at the end stay: seconds under each other have their points under each other.
        return f"{whole:.2f} s" if whole < 10 else f"{whole:.1f} s"
    thousandths = float(f"{1e3 * seconds:.3g}")
    return f"{thousandths:g} ms" if thousandths >= 1 else f"{float(f'{1e6 * seconds:.3g}'):g} µs"
