"""The forward pass: from tokens to logits.

Read in this order: `config.py` (a model's shape, out of config.json, with `families.py` for what the architectures fix
and `rope.py` for rotary positions), `weights.py` and `layer.py` (its tensors), `ops.py` (the operations besides the
linear layers, a seam), `decoder.py` (the forward pass), `pages.py` (the paged cache as tensors), `runner.py` (a step's
rows through a decoder). `torch_ops.py` and `attention.py` are the operations in plain torch; `device.py` says where and
in which formats all of this runs, `unsupported.py` how the rest is refused.
"""
