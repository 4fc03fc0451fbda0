# vLLM with Tailwright's plugin. Build in the checkout: docker build -f deploy/vllm/vllm.Dockerfile -t vllm-tailwright .
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0
FROM ${VLLM_IMAGE}
COPY agents/vllm_plugin/pyproject.toml /tmp/tailwright_vllm/
COPY agents/vllm_plugin/tailwright_vllm /tmp/tailwright_vllm/tailwright_vllm
RUN python3 -m pip install --no-cache-dir --no-deps --no-build-isolation --no-index /tmp/tailwright_vllm && rm -rf /tmp/tailwright_vllm
