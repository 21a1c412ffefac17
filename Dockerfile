# docker build --tag telic .                       CPU
# docker build --tag telic:cuda --target cuda .    NVIDIA GPU, with MuJoCo Warp
# docker build --tag telic:ray --target ray .      node of a Ray cluster (examples/clusters)
# docker run --rm --volume "$PWD/runs:/home/telic/runs" telic run "run forward fast" --env HalfCheetah-v5
FROM python:3.12 AS wheel
COPY pyproject.toml README.md LICENSE hatch_build.py /source/
COPY src /source/src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim AS base
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git libegl1 libgl1-mesa-dri libosmesa6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 telic
COPY --from=wheel /wheels /wheels
WORKDIR /home/telic

FROM base AS cuda
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[gpu,export,llm,mcp,web]"
USER 1000
ENTRYPOINT ["telic"]

FROM base AS ray
# KubeRay probes its nodes with wget.
# hadolint ignore=DL3008,DL3013
RUN apt-get update && apt-get install --yes --no-install-recommends wget \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir "$(echo /wheels/*.whl)[ray,export,llm]"
USER 1000
ENTRYPOINT ["telic"]

FROM base AS cpu
# An index of CPU builds of torch saves 3 GB: --build-arg TORCH_INDEX=URL
ARG TORCH_INDEX=""
# hadolint ignore=DL3013
RUN pip install --no-cache-dir torch==2.13.0 ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    && pip install --no-cache-dir "$(echo /wheels/*.whl)[export,llm,mcp,web]"
USER 1000
ENTRYPOINT ["telic"]
