# Each of these does all its own set-up, from nothing but Python 3.11 or newer.
#   make demo     the page, at http://127.0.0.1:7860
#   make test     all tests, those in a real browser included
#   make check    style, format, types
#   make screenshots   the pictures of docs/screenshots, from the running app

VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check format screenshots setup setup-tests clean
.DEFAULT_GOAL := demo

demo: setup
	$(BIN)/python -m app

# One thread: the models of the tests are small, and threads that wait for a busy core make them many times slower. Four
# processes (pytest-xdist) instead, for tests that wait too; a file's tests stay together, for they share a browser or a server.
# Bytecode is kept whatever the environment says: four processes and some forty programs would compile the sources each time.
test: setup-tests
	@.ci/chromium
	@.ci/node
	@.ci/npm $(VENV)
	@.ci/curl
	@.ci/proxies
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= PYTHONPATH=tests $(BIN)/python -m pytest -p ci_plugin \
		-n 4 --dist loadfile --no-loadscope-reorder

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

screenshots: setup
	@.ci/chromium
	PYTHONPATH=. $(BIN)/python docs/screenshots/take.py

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

setup:
	@.ci/setup $(VENV)

setup-tests:
	@.ci/setup $(VENV) requirements-eval.txt requirements-onnx.txt
	@.ci/setup-data $(VENV) requirements-nltk.txt

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
