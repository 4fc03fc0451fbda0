"""Explore: one pool's latency looked into: what it was, what bound it, whose it was, and how it differs."""
