# vLLM's CPU build, for machines without a GPU. Every package is installed by its hash.
FROM python:3.11-slim AS build
COPY . /src
RUN python3 -m pip install --no-cache-dir --require-hashes -r /src/requirements/locked/build.txt \
    && python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src
# The file is complete: --no-deps leaves out torchvision, torchaudio and torchcodec, as it does.
RUN uv venv /opt/toolgate \
    && uv pip install --python /opt/toolgate --no-cache --compile-bytecode --torch-backend cpu \
    --no-deps --require-hashes -r /src/requirements/locked/backend-cpu.txt \
    && uv pip install --python /opt/toolgate --no-cache --no-deps /wheels/*.whl

FROM python:3.11-slim
# vLLM's kernels link to libnuma, which no wheel brings.
RUN apt-get update && apt-get install --yes --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/toolgate /opt/toolgate
ENV PATH=/opt/toolgate/bin:$PATH
RUN useradd --uid 10001 --create-home toolgate \
    && install --directory --owner=toolgate /home/toolgate/.cache /home/toolgate/.cache/huggingface
USER 10001
ENTRYPOINT ["python3", "-m", "toolgate_backend.launch"]
