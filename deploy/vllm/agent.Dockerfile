# The agent alone. Build in the checkout: docker build -f deploy/vllm/agent.Dockerfile -t tailwright-agent .
FROM python:3.11-slim
WORKDIR /opt/tailwright
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY controlplane controlplane
COPY agents agents
COPY tuner tuner
COPY web web
RUN python3 -m pip install --no-cache-dir -c constraints.txt -e '.[agent]'
ENTRYPOINT ["tailwright", "agent"]
