# The stock vLLM image plus our plug-in: the image's vLLM (0.31 to 0.33), torch and xgrammar stay as
# they are. What it lacks is installed by its hash.
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0
FROM python:3.11-slim AS build
COPY . /src
RUN python3 -m pip install --no-cache-dir --require-hashes -r /src/requirements/locked/build.txt \
    && python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src
RUN awk '/^(jsonschema-rs|redis)==/, !/\\$/' /src/requirements/locked/backend.txt \
    > /wheels/backend.txt

FROM ${VLLM_IMAGE}
COPY --from=build /wheels /wheels
RUN python3 -m pip install --no-cache-dir --no-deps --require-hashes -r /wheels/backend.txt \
    && python3 -m pip install --no-cache-dir --no-deps /wheels/*.whl && rm -rf /wheels \
    && python3 -c "import toolgate_backend.launch, toolgate_backend.endpoint.routes"
RUN useradd --uid 10001 --create-home toolgate \
    && install --directory --owner=toolgate /home/toolgate/.cache /home/toolgate/.cache/huggingface
USER 10001
ENTRYPOINT ["python3", "-m", "toolgate_backend.launch"]
