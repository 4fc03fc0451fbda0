"""The statistics that alerts and rollouts decide by: sketches, exceedances, the e-detector. Sees numpy and contract."""
