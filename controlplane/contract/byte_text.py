"""Amounts of memory as people read them, on pages, in commands and in messages alike."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def byte_text(amount: int) -> str:
    """256 MiB, 1.25 GiB: three digits, in powers of 1024 (IEC 80000-13)."""
    value, unit = float(amount), _UNITS[0]
    for unit in _UNITS:
        if value < 1023.5 or unit == _UNITS[-1]:
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"
