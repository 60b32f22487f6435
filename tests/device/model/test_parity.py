"""Our logits are those of transformers' Qwen3, Qwen2 and Llama.

The archives hold a checkpoint as transformers saved it, and what it computed from it;
tests/golden/make_parity_golden.py wrote them.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.decoder import bind, forward_completions, forward_prompts
from jaxgrpo.device.records import Prompts
from jaxgrpo.weights import load_architecture, load_params

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("name", ["qwen3_tied", "qwen3_untied", "qwen2", "llama3"])
def test_logits_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    golden = np.load(GOLDEN / f"parity_{name}.npz")
    (tmp_path / "config.json").write_bytes(golden["config"].tobytes())
    (tmp_path / "model.safetensors").write_bytes(golden["safetensors"].tobytes())
    architecture = load_architecture(tmp_path)
    params = load_params(tmp_path, architecture)
    token_ids_BS = jnp.asarray(golden["token_ids"])
    num_prompt = 7

    @jax.jit
    def logits(params):
        model = bind(architecture, params, jnp.dtype("float32"))
        whole = Prompts(token_ids_BS, jnp.array([token_ids_BS.shape[1]] * 2))
        hidden_BSD, _ = forward_prompts(model, whole)
        split = Prompts(token_ids_BS[:, :num_prompt], jnp.array([num_prompt] * 2))
        hidden_BTD = forward_completions(
            model, split, token_ids_BS[:, num_prompt:], jnp.arange(2)
        )
        head_VD = model.output_head_VD
        return head_logits(hidden_BSD, head_VD), head_logits(hidden_BTD, head_VD)

    whole_BSV, completion_BTV = logits(params)
    # Float32 rounding in another order; the logits themselves reach 8.
    np.testing.assert_allclose(whole_BSV, golden["logits"], rtol=0, atol=1e-4)
    predicting_BTV = golden["logits"][:, num_prompt - 1 : -1]
    np.testing.assert_allclose(completion_BTV, predicting_BTV, rtol=0, atol=1e-4)
