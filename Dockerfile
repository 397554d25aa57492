# The service's image (the default target), the load test's (--target loadtest) and that of the keys' sidecar
# (--target keys).
#
# Mirrors: --build-arg REGISTRY=docker.m.daocloud.io for images, --build-arg DEBIAN=mirrors.tuna.tsinghua.edu.cn for
# packages.
ARG REGISTRY=docker.io

FROM ${REGISTRY}/library/debian:12.14-slim AS debian
ARG DEBIAN=
RUN [ -z "$DEBIAN" ] || sed -i "s|^URIs: http://[^/]*|URIs: http://$DEBIAN|" /etc/apt/sources.list.d/debian.sources

FROM debian AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential cmake pkg-config esbuild \
        libmicrohttpd-dev libhiredis-dev libpq-dev libjansson-dev libuv1-dev libssl-dev libcurl4-openssl-dev \
        systemtap-sdt-dev
WORKDIR /seckill
COPY . .
# A link in the tree, which a check-out on Windows may have as a file.
COPY clients/web web/client
# Tests are not part of the image, and neither are the libraries that only they need.
RUN cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DSK_TESTS=OFF \
    && cmake --build build -j "$(nproc)" --target seckill \
    && strip build/seckill

FROM debian AS loadtest
RUN apt-get update && apt-get install -y --no-install-recommends \
        wrk python3 postgresql-client redis-tools \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /seckill
COPY loadtest loadtest
USER 10001:10001
ENTRYPOINT ["loadtest/oversell"]

# Besides libraries, the authorities by which `seckill webhooks` checks the certificates of receivers.
FROM debian AS libraries
RUN apt-get update && apt-get install -y --no-install-recommends \
        libmicrohttpd12 libhiredis0.14 libpq5 libjansson4 libuv1 libssl3 libcurl4 ca-certificates \
    && rm -rf /var/lib/apt/lists/*

# The bill of materials: all packages of the image.
FROM libraries AS bill
COPY CMakeLists.txt deploy/install/sbom /seckill/
RUN cd /seckill && ./sbom "$(sed -nE 's/^project\(seckill VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)" >sbom.cdx.json

FROM libraries AS run
COPY --from=build /seckill/build/seckill /usr/local/bin/seckill
COPY --from=bill /seckill/sbom.cdx.json /usr/share/doc/seckill/sbom.cdx.json
# A number, so that an orchestrator can tell that this is not root without looking into the image.
USER 10001:10001
# Inside a container 127.0.0.1 could not be reached from outside. So it starts with SECKILL_GATEWAY_TRUSTED=yes, where only
# the gateway can reach it, or with SECKILL_AUTH=token.
ENV SECKILL_LISTEN=[::]:8080
EXPOSE 8080
ENTRYPOINT ["seckill"]

# A sidecar that fetches the keys of users' tokens (--target keys).
FROM run AS keys
USER 0:0
RUN apt-get update && apt-get install -y --no-install-recommends curl procps \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/keys/fetch-keys /usr/local/bin/fetch-keys
USER 10001:10001
ENTRYPOINT ["fetch-keys"]

FROM run
