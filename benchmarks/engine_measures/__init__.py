"""The measures of the engine's benchmark: one file each, all on the same workers, texts and statistics."""
