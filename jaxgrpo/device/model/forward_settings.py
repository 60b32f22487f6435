"""What fixes the program of a forward pass besides shapes."""

from typing import NamedTuple


class ForwardSettings(NamedTuple):
    """How the decoder is computed. Hashable: a static argument of jit.

    The defaults run on any platform.
    """

    dtype: str = "float32"
    """Of activations, of the weights as they are used, and of the cache."""
    attention: str = "xla"
    """How whole sequences attend: a name of `ATTENTIONS` (attention/choice.py)."""
    unroll_layers: bool = False
    """Unroll the scan over layers."""
    remat: str = "none"
    """What of a layer is kept for its backward pass: a name of `REMAT` (remat.py)."""


PLAIN_FORWARD = ForwardSettings()
"""float32, plain XLA, everything kept."""
