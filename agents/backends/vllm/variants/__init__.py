"""Makes the quantized variants of a model that a managed vLLM can be restarted with.

    python -m agents.backends.vllm.variants MODEL_DIR OUT_DIR --format int8

writes a checkpoint in the compressed-tensors layout, which vLLM loads by itself: no calibration, round to nearest, the
decoder's projections only (embeddings, head and norms stay as they are). It needs torch and safetensors (the `engine`
extra), and nothing of vLLM.
"""
