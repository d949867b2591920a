"""MARS for `model.generate(custom_generate=…)`: several tokens per forward pass. The arguments are in README.md."""

try:
    from mars.hub import generate
except ImportError as error:
    raise ImportError(
        f"custom_generate of MARS needs the Python package mars-lens, which is not installed here ({error}): run "
        "`pip install PATH`, where PATH is a clone of the repository that this file comes from"
    ) from error

__all__ = ["generate"]
