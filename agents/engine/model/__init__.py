"""From tokens to logits: configuration, weights, decoder, attention, and a step's rows as tensors."""
