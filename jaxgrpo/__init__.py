"""A JAX-native GRPO trainer for code.

The public names resolve on first use (PEP 562), so that `import jaxgrpo` loads
nothing. Importing the three functions loads jax, NumPy and jaxtyping, no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxgrpo.device.head import token_logprobs as token_logprobs
    from jaxgrpo.device.objective.advantages import (
        group_advantages as group_advantages,
    )
    from jaxgrpo.device.objective.loss import grpo_loss as grpo_loss

__version__ = "0.1.0"

_HOME_OF = {
    "group_advantages": "jaxgrpo.device.objective.advantages",
    "grpo_loss": "jaxgrpo.device.objective.loss",
    "token_logprobs": "jaxgrpo.device.head",
}

__all__ = ["__version__", "group_advantages", "grpo_loss", "token_logprobs"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'jaxgrpo' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
