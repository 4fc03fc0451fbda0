"""The log folded into frames, and frames kept right: head, compaction, retention, bulk load, verification, backup."""
