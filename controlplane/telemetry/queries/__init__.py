"""Answers: which frames and rows a question needs, and their sums, quantiles, rates, shares and heat maps."""
