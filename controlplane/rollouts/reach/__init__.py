"""The blast radius of a rollout: nodes, traffic, tenants and time without service."""
