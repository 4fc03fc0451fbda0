"""The engine itself: one step, the loop over steps, the configuration in force, and the record of what happened."""
