"""Why a GPU's clocks are held down: NVML's clocks-event reasons (bits), in words."""

REASONS: dict[int, str] = {
    0x01: "idle",
    0x02: "clocks set by a person",
    0x04: "power cap",
    0x08: "slowed down by the hardware",
    0x10: "held to other GPUs' clocks",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
HEAT = 0x20 | 0x40
POWER = 0x04 | 0x80
HARDWARE = 0x08
"""Heat or power, as the hardware saw it: the other bits say which."""


def in_words(bits: int) -> str:
    """The reasons, with commas between; bits that are not known are left out."""
    return ", ".join(words for bit, words in REASONS.items() if bits & bit)
