"""What others send us: acknowledgements from where alerts are told, alerts of other systems, and marks."""
