"""Fuzzing of the whole service: what agents and clients may send, then every route and page asked once.

`python -m benchmarks.hostile --requests 20000 --messages 5000 --seed 3` does so to a real `tailwright up`.
"""
