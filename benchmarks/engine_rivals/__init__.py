"""The contestants of the engine's benchmark: one worker process each, in its own interpreter, idle while others run.

What runs in a rival's interpreter imports nothing of the product.
"""
