# The gateway: no torch, no vLLM.
FROM python:3.11-slim
COPY . /src
RUN python3 -m pip install --no-cache-dir --constraint /src/requirements/constraints.txt \
    "/src[proxy]" && rm -rf /src
COPY litellm_config.yaml /etc/toolgate/litellm_config.yaml
EXPOSE 4000
ENTRYPOINT ["toolgate", "proxy", "--config", "/etc/toolgate/litellm_config.yaml"]
CMD ["--host", "0.0.0.0", "--port", "4000"]
