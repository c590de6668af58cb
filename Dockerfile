# The service alone: no test tools, no root; and no torch, which estimates of noise rates need:
#   docker build --build-arg 'EXTRAS=[noise]' .
FROM python:3.12-slim AS build
ARG EXTRAS=
WORKDIR /src
COPY pyproject.toml README.md ./
COPY learners learners
COPY service service
COPY clients clients
RUN python -m venv /opt/misclick && /opt/misclick/bin/pip install --no-cache-dir ".$EXTRAS"

FROM python:3.12-slim
# A volume on the folder of the embedded Valkey gets its owner from here; without one the data goes
# with the container.
RUN useradd --create-home --uid 10001 misclick \
  && install --directory --owner misclick --group misclick /home/misclick/data
COPY --from=build /opt/misclick /opt/misclick
USER misclick
WORKDIR /home/misclick
ENV PATH=/opt/misclick/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
# Others can reach the container, so it refuses to start without API keys (MISCLICK_KEYS_FILE).
CMD ["misclick", "serve", "--host", "0.0.0.0", "--port", "8000"]
