# vLLM's CPU build, for machines without a GPU.
FROM python:3.11-slim
# vLLM's kernels link to libnuma, which no wheel brings.
RUN apt-get update && apt-get install --yes --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m pip install --no-cache-dir uv==0.13.8
COPY . /src
RUN cd /src && uv pip install --system --no-cache --compile-bytecode --torch-backend cpu \
    --constraint requirements/constraints.txt --overrides requirements/cpu-overrides.txt \
    ".[backend-cpu]" && rm -rf /src
ENTRYPOINT ["python3", "-m", "toolgate_backend.launch"]
