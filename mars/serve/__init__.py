"""An OpenAI-compatible endpoint on `mars.decoding.service`: `python -m mars.serve --help` and docs/serving.md."""
