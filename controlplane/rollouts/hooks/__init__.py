"""Hooks: whom a rollout asks before it goes on, and whom it tells; called beside the controller, never by it."""
