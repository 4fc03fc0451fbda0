"""The user's own evaluation of a model: commands that a worker was started with, and what they say."""
