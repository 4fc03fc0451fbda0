# vLLM with Trimtab's plugin. Build in the checkout: docker build -f deploy/vllm/vllm.Dockerfile -t vllm-trimtab .
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0
FROM ${VLLM_IMAGE}
COPY agents/vllm_plugin/pyproject.toml /tmp/trimtab_vllm/
COPY agents/vllm_plugin/trimtab_vllm /tmp/trimtab_vllm/trimtab_vllm
RUN python3 -m pip install --no-cache-dir --no-deps /tmp/trimtab_vllm && rm -rf /tmp/trimtab_vllm
