"""The log of finished requests: pages of it, one request with its neighbours, counts by label, a workload."""
