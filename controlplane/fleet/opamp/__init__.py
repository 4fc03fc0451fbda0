"""OpAMP with the agents: its wire format, one exchange as a transaction, the endpoint, and who is waiting."""
