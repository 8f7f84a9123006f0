# The stock vLLM image plus our plug-in: the image's vLLM (0.31 to 0.33), torch and xgrammar stay as
# they are.
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0
FROM ${VLLM_IMAGE}
COPY . /src
RUN python3 -m pip install --no-cache-dir "/src[backend]" && rm -rf /src
ENTRYPOINT ["python3", "-m", "toolgate_backend.launch"]
