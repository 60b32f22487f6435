"""Programs lowered for a platform that is not present."""

from collections.abc import Callable
from typing import Any

import jax
import pytest


@pytest.fixture
def lowered_for_cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function's program as text, for CUDA; only the version of cuDNN is made up."""
    kernel = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(kernel, "check_cudnn_version", lambda: 91000)

    def lowered(function: Callable[..., Any], *operands: Any) -> str:
        traced = jax.jit(function).trace(*operands)
        return traced.lower(lowering_platforms=("cuda",)).as_text()

    return lowered
