"""From a folder to a model that serves: weights read, formats made, their quality measured."""
