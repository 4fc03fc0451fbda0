"""What a disk would still hold after a power cut: a recorder of file writes, and their replay with a cut."""
