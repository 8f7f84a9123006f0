# vLLM's CPU build, for machines without a GPU. Every package is installed by its hash.
FROM python:3.11-slim AS build
COPY . /src
RUN python3 -m pip install --no-cache-dir --require-hashes -r /src/requirements/locked/build.txt \
    && python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src

FROM python:3.11-slim
# vLLM's kernels link to libnuma, which no wheel brings.
RUN apt-get update && apt-get install --yes --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m pip install --no-cache-dir uv==0.13.8
COPY requirements/locked/backend-cpu.txt /tmp/backend-cpu.txt
# The file is complete: --no-deps leaves out torchvision, torchaudio and torchcodec, as it does.
RUN uv pip install --system --no-cache --compile-bytecode --torch-backend cpu \
    --no-deps --require-hashes -r /tmp/backend-cpu.txt
COPY --from=build /wheels /wheels
RUN uv pip install --system --no-cache --no-deps /wheels/*.whl && rm -rf /wheels /tmp/backend-cpu.txt
ENTRYPOINT ["python3", "-m", "toolgate_backend.launch"]
