"""What every page stands in: its address and bar, its parts and their live stream, files, styles and words."""
