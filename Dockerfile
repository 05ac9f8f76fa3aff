# An image that runs `steropes` as any user on a read-only root:
#
#   docker build --tag steropes .
#   docker run --rm --read-only --tmpfs /tmp --user 1234:1234 --network none \
#     --volume /data:/data:ro --volume "$PWD/out:/out" \
#     steropes study /data/omop.duckdb --target 1118084 --comparator 1124300 --outcome 192671 --output /out
#
# The digest is that of python:3.12-slim (Python 3.12.13, Debian trixie, built on 5 August 2026) in
# repos/python/remote/3.12-slim.md of github.com/docker-library/repo-info, where each new build is listed.
ARG PYTHON=python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36

FROM ${PYTHON} AS build
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY requirements /src/requirements
# Versions and hashes are fixed, those of the tools that build the wheel too, so that an image can be
# built again with the same packages. Isolation would fetch other versions of these tools.
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r /src/requirements/build.txt \
    && /opt/build/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /opt/wheels /src \
    && python -m venv /opt/steropes \
    && /opt/steropes/bin/pip install --no-cache-dir --require-hashes -r /src/requirements/deployment.txt \
    && /opt/steropes/bin/pip install --no-cache-dir --no-deps --no-index /opt/wheels/*.whl
# Compiled once here; docker-entrypoint.sh gives each container a copy of its own.
RUN NUMBA_CACHE_DIR=/opt/kernels /opt/steropes/bin/steropes warm

FROM ${PYTHON}
COPY --from=build /opt/steropes /opt/steropes
COPY --from=build /opt/kernels /opt/kernels
COPY --chmod=755 docker-entrypoint.sh /usr/local/bin/entrypoint
ENV PATH=/opt/steropes/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65534:65534
WORKDIR /tmp
ENTRYPOINT ["entrypoint"]
CMD ["--help"]
