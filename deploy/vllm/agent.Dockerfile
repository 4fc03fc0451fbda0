# The agent alone. Build in the checkout: docker build -f deploy/vllm/agent.Dockerfile -t tailwright-agent .
FROM python:3.11-slim
WORKDIR /opt/tailwright
COPY deploy/locks/agent.txt ./
RUN python3 -m pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r agent.txt
COPY pyproject.toml README.md LICENSE ./
COPY controlplane controlplane
COPY agents agents
COPY tuner tuner
COPY web web
RUN python3 -m pip install --no-cache-dir --no-deps --no-build-isolation --no-index -e .
ENTRYPOINT ["tailwright", "agent"]
