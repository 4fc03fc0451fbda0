"""The largest load that keeps a study's limits: which load is replayed next, and what the replays say."""
