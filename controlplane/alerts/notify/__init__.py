"""Telling on-call: the outbox, the webhook's body and signature, and its delivery."""
