"""The models that come with the product, and how they were made (`training/`)."""
