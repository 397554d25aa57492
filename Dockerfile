# The service's image (the default target) and the load test's (--target loadtest).

FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential cmake pkg-config \
        libmicrohttpd-dev libhiredis-dev libpq-dev libjansson-dev libuv1-dev libssl-dev systemtap-sdt-dev
WORKDIR /seckill
COPY . .
# A link in the tree, which a check-out on Windows may have as a file.
COPY clients/web web/client
# Tests are not part of the image, and neither are the libraries that only they need.
RUN cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DSK_TESTS=OFF \
    && cmake --build build -j "$(nproc)" --target seckill \
    && strip build/seckill

FROM debian:12-slim AS loadtest
RUN apt-get update && apt-get install -y --no-install-recommends \
        wrk python3 postgresql-client redis-tools \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /seckill
COPY loadtest loadtest
USER 10001:10001
ENTRYPOINT ["loadtest/oversell"]

FROM debian:12-slim AS run
RUN apt-get update && apt-get install -y --no-install-recommends \
        libmicrohttpd12 libhiredis0.14 libpq5 libjansson4 libuv1 libssl3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /seckill/build/seckill /usr/local/bin/seckill
# A number, so that an orchestrator can tell that this is not root without looking into the image.
USER 10001:10001
# Inside a container 127.0.0.1 could not be reached from outside. So it starts with SECKILL_GATEWAY_TRUSTED=yes, where only
# the gateway can reach it, or with SECKILL_AUTH=token.
ENV SECKILL_LISTEN=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["seckill"]
