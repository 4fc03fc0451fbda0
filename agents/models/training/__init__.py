"""Trains, evaluates and describes the small Python-writing model that Tailwright ships."""
