"""The write path: one commit for many reports, each counted once, acknowledged when it is on disk."""
