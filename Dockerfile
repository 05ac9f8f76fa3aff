# An image that runs `steropes` as any user on a read-only root:
#
#   docker build --tag steropes .
#   docker run --rm --read-only --tmpfs /tmp --user 1234:1234 --network none \
#     --volume /data:/data:ro --volume "$PWD/out:/out" \
#     steropes study /data/omop.duckdb --target 1118084 --comparator 1124300 --outcome 192671 --output /out
FROM python:3.12-slim AS build
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY requirements /src/requirements
# Versions and hashes are fixed, so that an image can be built again with the same packages.
RUN python -m venv /opt/steropes \
    && /opt/steropes/bin/pip install --no-cache-dir --require-hashes -r /src/requirements/deployment.txt \
    && /opt/steropes/bin/pip install --no-cache-dir --no-deps /src
# Compiled once here; docker-entrypoint.sh gives each container a copy of its own.
RUN NUMBA_CACHE_DIR=/opt/kernels /opt/steropes/bin/steropes warm

FROM python:3.12-slim
COPY --from=build /opt/steropes /opt/steropes
COPY --from=build /opt/kernels /opt/kernels
COPY --chmod=755 docker-entrypoint.sh /usr/local/bin/entrypoint
ENV PATH=/opt/steropes/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65534:65534
WORKDIR /tmp
ENTRYPOINT ["entrypoint"]
CMD ["--help"]
