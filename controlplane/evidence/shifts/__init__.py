"""What moved a quantile: by groups and by parts, since when, and by how much at any time."""
