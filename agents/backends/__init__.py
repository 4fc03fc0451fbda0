"""The engines that an agent can stand beside, behind one seam (`base.py`)."""
