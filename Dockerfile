# The gateway for a store of its own elsewhere:
#   docker build -t dedup-gateway .
#   docker run -v ./gateway.yaml:/etc/dedup-gateway/gateway.yaml:ro -p 8080:8080 dedup-gateway
# With the embedded store, which is for one machine and not for pods, and its claims in a volume:
#   docker build --build-arg EXTRAS=[embedded] -t dedup-gateway:embedded .
#   docker run --init -v claims:/var/lib/dedup-gateway ... dedup-gateway:embedded
# (--init reaps what a Postgres that was killed leaves behind.)
# In the file, let listen be 0.0.0.0:8080, and admin.listen 0.0.0.0:8081 when probes and scrapes
# come from outside.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ARG EXTRAS=
WORKDIR /source
RUN python -m venv /opt/dedup-gateway
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
RUN /opt/dedup-gateway/bin/pip install --no-cache-dir ".${EXTRAS}"

FROM ${BASE}
# by name too, because initdb refuses a user without one
RUN groupadd --gid 10001 dedup \
 && useradd --uid 10001 --gid dedup --no-create-home --home-dir / --shell /usr/sbin/nologin dedup \
 && install -d -o dedup -g dedup -m 0700 /var/lib/dedup-gateway
COPY --from=build /opt/dedup-gateway /opt/dedup-gateway
ENV PATH=/opt/dedup-gateway/bin:$PATH
# a number, so that Kubernetes can see that it is not root
USER 10001:10001
EXPOSE 8080 8081
# alive, not ready: a container is not made better by a restart while its store is away
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8081, timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["dedup-gateway"]
CMD ["serve", "--config", "/etc/dedup-gateway/gateway.yaml"]
