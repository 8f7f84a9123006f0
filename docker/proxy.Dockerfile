# The gateway: no torch, no vLLM. Every package is installed by its hash.
FROM python:3.11-slim AS build
COPY . /src
RUN python3 -m pip install --no-cache-dir --require-hashes -r /src/requirements/locked/build.txt \
    && python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /src

FROM python:3.11-slim
COPY requirements/locked/proxy.txt requirements/proxy-unused.txt /tmp/
# In one layer, so that what is removed takes no space.
RUN python3 -m pip install --no-cache-dir --no-deps --require-hashes -r /tmp/proxy.txt \
    && python3 -m pip uninstall --yes --requirement /tmp/proxy-unused.txt
COPY --from=build /wheels /wheels
RUN python3 -m pip install --no-cache-dir --no-deps /wheels/*.whl && rm -rf /wheels /tmp/*.txt
COPY litellm_config.yaml /etc/toolgate/litellm_config.yaml
RUN useradd --uid 10001 --create-home toolgate
USER 10001
EXPOSE 4000
ENTRYPOINT ["toolgate", "proxy", "--config", "/etc/toolgate/litellm_config.yaml"]
CMD ["--host", "0.0.0.0", "--port", "4000"]
