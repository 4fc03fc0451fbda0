"""What all parts agree on: knobs, names, units, states and wire models.

Guarantee: importing any module of this package loads the standard library and pydantic, nothing else.
"""
