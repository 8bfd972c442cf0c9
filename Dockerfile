# A static `forebay` in an image that contains nothing else and runs as user nobody: docs/containers.md.
#   docker build -t forebay .
FROM rust:1.90-alpine AS build
RUN apk add --no-cache musl-dev gcc make
WORKDIR /forebay
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/forebay/target \
    cargo build --locked --profile dist -p forebay-cli && install target/dist/forebay /usr/bin/forebay

FROM scratch
COPY --from=build /usr/bin/forebay /usr/bin/forebay
USER 65534:65534
WORKDIR /data
ENTRYPOINT ["/usr/bin/forebay"]
CMD ["--help"]
