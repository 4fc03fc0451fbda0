"""Where alerts are told, and how that goes: destinations, their kinds, and what was sent to them."""
