"""A forward pass, and all it needs: `ModelEngine` over rows of a cache, attention and masks, kernels, CUDA graphs.

`engine` is what decoders call. `network` (Qwen2 and Llama, with static shapes) and `transformer` (any model of
`transformers`) run the model, `window` says what a pass reads, `adapter` holds the weights that act at masks.
"""

from mars.engine.engine import Engine, ModelEngine

__all__ = ["Engine", "ModelEngine"]
