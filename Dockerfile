# A static `forebay` in an image that contains nothing else and runs as user nobody: docs/containers.md.
#   DOCKER_BUILDKIT=1 docker build -t forebay .
FROM rust:1.90-alpine AS build
RUN apk add --no-cache musl-dev gcc make
WORKDIR /forebay
COPY . .
# What `forebay --version` prints after the version. The image gets no checkout.
ARG FOREBAY_COMMIT=
# /tmp is for the temporary files of verbs that unpack a trace.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/forebay/target \
    cargo build --locked --profile dist -p forebay-cli && \
    install -D target/dist/forebay /image/usr/bin/forebay && install -d -m 1777 /image/tmp

FROM scratch
COPY --from=build /image /
USER 65534:65534
WORKDIR /data
ENTRYPOINT ["/usr/bin/forebay"]
CMD ["--help"]
