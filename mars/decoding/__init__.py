"""The decoders, by name. Each yields one `ForwardPass` per call of the model."""

from mars.decoding.autoregressive import autoregressive
from mars.decoding.base import Decoder
from mars.decoding.self_speculative import self_speculative
from mars.decoding.sliding_window import sliding_window

DECODERS: dict[str, Decoder] = {
    "autoregressive": autoregressive,
    "sliding_window": sliding_window,
    "self_speculative": self_speculative,
}

__all__ = ["DECODERS", "Decoder"]
