# jetool without Spark: `docker build -t jetool .`, then
#     docker run --rm -v /data/env:/data/env:ro jetool verify /data/env
# A command that writes needs the directory writable and the user that owns the files: --user "$(id -u):$(id -g)".
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY engine engine
COPY jetool jetool
COPY man man
RUN python -m venv /opt/jetool && /opt/jetool/bin/pip install --no-cache-dir . \
    && /opt/jetool/bin/pip uninstall -y pip && find /opt/jetool -name __pycache__ -prune -exec rm -rf {} +

FROM python:3.13-slim
COPY --from=build /opt/jetool /opt/jetool
RUN useradd --system --uid 10001 --home-dir / --shell /usr/sbin/nologin jetool
ENV PATH=/opt/jetool/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER jetool
ENTRYPOINT ["jetool"]
CMD ["--help"]
