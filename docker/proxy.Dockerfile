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
# The client of LiteLLM's database. Its engines and its program, which needs Node, are downloaded
# here: they are in no package index.
ENV PRISMA_HOME_DIR=/opt/prisma CHECKPOINT_DISABLE=1
RUN apt-get update && apt-get install --yes --no-install-recommends nodejs npm openssl \
    && prisma generate --schema /usr/local/lib/python3.11/site-packages/litellm/proxy/schema.prisma \
    && chmod --recursive a+rX /opt/prisma \
    && apt-get purge --yes npm && apt-get autoremove --yes && rm -rf /var/lib/apt/lists/* /root/.npm
COPY litellm_config.yaml /etc/toolgate/litellm_config.yaml
RUN useradd --uid 10001 --create-home toolgate
USER 10001
EXPOSE 4000
ENTRYPOINT ["toolgate", "proxy", "--config", "/etc/toolgate/litellm_config.yaml"]
CMD ["--host", "0.0.0.0", "--port", "4000"]
