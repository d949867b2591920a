"""The decoders, by name. Each yields one `ForwardPass` per call of the model.

`METHODS` are those whose rows may share passes with rows of other runs (mars/service.py).
"""

from collections.abc import Callable

from mars.config import DecodingSettings
from mars.decoding.autoregressive import autoregressive
from mars.decoding.autoregressive import method_of as autoregressive_method
from mars.decoding.base import Decoder
from mars.decoding.block_cached import block_cached
from mars.decoding.block_diffusion import block_diffusion
from mars.decoding.jacobi import jacobi
from mars.decoding.jacobi import method_of as jacobi_method
from mars.decoding.method import Method
from mars.decoding.self_speculative import method_of as self_speculative_method
from mars.decoding.self_speculative import self_speculative
from mars.decoding.sliding_window import method_of as sliding_window_method
from mars.decoding.sliding_window import sliding_window
from mars.decoding.speculative import speculative
from mars.engine import Engine

DECODERS: dict[str, Decoder] = {
    "autoregressive": autoregressive,
    "sliding_window": sliding_window,
    "self_speculative": self_speculative,
    "jacobi": jacobi,
    "block_cached": block_cached,
    "block_diffusion": block_diffusion,
    "speculative": speculative,
}

METHODS: dict[str, Callable[[Engine, DecodingSettings], Method]] = {
    "autoregressive": autoregressive_method,
    "sliding_window": sliding_window_method,
    "self_speculative": self_speculative_method,
    "jacobi": jacobi_method,
}

__all__ = ["DECODERS", "METHODS", "Decoder"]
