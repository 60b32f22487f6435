"""One decoder layer: its weights, and the two halves of its computation."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture


class RMSNorm(nnx.Module):
    """x / sqrt(mean(x^2) + eps) * scale, in fp32 over the last dim."""

    def __init__(self, width: int, eps: float):
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.eps = eps

    def __call__(self, x: Float[Array, "*X D"]) -> Float[Array, "*X D"]:
        """The normalised x, in its own dtype."""
        x32 = x.astype(jnp.float32)
        mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
        normed = (x32 * jax.lax.rsqrt(mean_square + self.eps)).astype(x.dtype)
        return normed * jnp.broadcast_to(self.scale[...].astype(x.dtype), x.shape)


class DecoderLayer(nnx.Module):
    """One layer's weights and the two halves of its computation."""

    def __init__(self, architecture: Architecture, *, rngs: nnx.Rngs):
        a = architecture
        depth_scale = (2 * a.num_layers) ** -0.5
        self.attention_norm = RMSNorm(a.width, a.norm_eps)
        self.q_DNH = dense(rngs, (a.width, a.num_heads, a.head_width), a.width)
        self.k_DKH = dense(rngs, (a.width, a.num_kv_heads, a.head_width), a.width)
        self.v_DKH = dense(rngs, (a.width, a.num_kv_heads, a.head_width), a.width)
        out_shape = (a.num_heads, a.head_width, a.width)
        out_fan = a.num_heads * a.head_width
        self.o_NHD = dense(rngs, out_shape, out_fan, depth_scale)
        self.q_norm = RMSNorm(a.head_width, a.norm_eps)
        self.k_norm = RMSNorm(a.head_width, a.norm_eps)
        self.mlp_norm = RMSNorm(a.width, a.norm_eps)
        self.gate_DF = dense(rngs, (a.width, a.mlp_width), a.width)
        self.up_DF = dense(rngs, (a.width, a.mlp_width), a.width)
        self.down_FD = dense(rngs, (a.mlp_width, a.width), a.mlp_width, depth_scale)
        self.rope_theta = a.rope_theta

    def qkv(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "B T"]
    ) -> tuple[
        Float[Array, "B T N H"], Float[Array, "B T K H"], Float[Array, "B T K H"]
    ]:
        """Normalised, rotated queries and keys, and values."""
        normed_BTD = self.attention_norm(x_BTD)
        q_BTNH = self.q_norm(_project(normed_BTD, self.q_DNH[...]))
        k_BTKH = self.k_norm(_project(normed_BTD, self.k_DKH[...]))
        v_BTKH = _project(normed_BTD, self.v_DKH[...])
        return (
            rotate(q_BTNH, positions_BT, self.rope_theta),
            rotate(k_BTKH, positions_BT, self.rope_theta),
            v_BTKH,
        )

    def finish(
        self, x_BTD: Float[Array, "B T D"], attended_BTNH: Float[Array, "B T N H"]
    ) -> Float[Array, "B T D"]:
        """Adds the attention's output and the MLP to the residual stream."""
        B, T, N, H = attended_BTNH.shape
        o_XD = self.o_NHD[...].reshape(N * H, -1)
        x_BTD = x_BTD + _project(attended_BTNH.reshape(B, T, N * H), o_XD)
        normed_BTD = self.mlp_norm(x_BTD)
        gate_BTF = jax.nn.silu(_project(normed_BTD, self.gate_DF[...]))
        up_BTF = _project(normed_BTD, self.up_DF[...])
        return x_BTD + _project(gate_BTF * up_BTF, self.down_FD[...])


def rotate(
    x_BTNH: Float[Array, "B T N H"],
    positions_BT: Int[Array, "B T"],
    theta: float,
) -> Float[Array, "B T N H"]:
    """Rotary position embedding, half-rotation form, angles in fp32.

    With the head split into halves (a, b) and angle_i = position * theta^(-2i / H),

        (a, b) -> (a cos - b sin, b cos + a sin)

    Reference:
      Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864. Differs from it in
      pairing i with i + H/2 instead of 2i with 2i + 1, as Qwen and Llama do.
    """
    H = x_BTNH.shape[-1]
    half = H // 2
    frequency_X = theta ** (-jnp.arange(half, dtype=jnp.float32) * 2.0 / H)
    positions_BT11 = positions_BT[:, :, None, None].astype(jnp.float32)
    angle_BT1X = positions_BT11 * frequency_X[None, None, None, :]
    cos_BT1X, sin_BT1X = jnp.cos(angle_BT1X), jnp.sin(angle_BT1X)
    a_BTNX, b_BTNX = x_BTNH[..., :half], x_BTNH[..., half:]
    rotated_BTNH = jnp.concatenate(
        [a_BTNX * cos_BT1X - b_BTNX * sin_BT1X, b_BTNX * cos_BT1X + a_BTNX * sin_BT1X],
        axis=-1,
    )
    return rotated_BTNH.astype(x_BTNH.dtype)


def dense(
    rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int, scale: float = 1.0
) -> nnx.Param:
    """A matrix of normal draws with deviation scale / sqrt(fan_in)."""
    return nnx.Param(scale * fan_in**-0.5 * jax.random.normal(rngs.params(), shape))


def _project(x_BTD: Array, kernel: Array) -> Array:
    """The product over the last dim of x, flattened to one of two matrices.

    The weight gradient of a 3-D contraction is slow on CPU; a 2-D one is not.
    """
    flat_XD = x_BTD.reshape(-1, x_BTD.shape[-1])
    out_XF = flat_XD @ kernel.reshape(kernel.shape[0], -1)
    return out_XF.reshape(*x_BTD.shape[:-1], *kernel.shape[1:])
