"""One decoder layer: its weights, and the two halves of its computation."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.lora import ADAPTERS
from jaxgrpo.device.model.rope import rotate


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
        if a.has_qkv_bias:
            self.q_bias_NH = bias((a.num_heads, a.head_width))
            self.k_bias_KH = bias((a.num_kv_heads, a.head_width))
            self.v_bias_KH = bias((a.num_kv_heads, a.head_width))
        if a.has_qk_norm:
            self.q_norm = RMSNorm(a.head_width, a.norm_eps)
            self.k_norm = RMSNorm(a.head_width, a.norm_eps)
        self.mlp_norm = RMSNorm(a.width, a.norm_eps)
        self.gate_DF = dense(rngs, (a.width, a.mlp_width), a.width)
        self.up_DF = dense(rngs, (a.width, a.mlp_width), a.width)
        self.down_FD = dense(rngs, (a.mlp_width, a.width), a.mlp_width, depth_scale)
        self.architecture = a

    def qkv(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "B T"]
    ) -> tuple[
        Float[Array, "B T N H"], Float[Array, "B T K H"], Float[Array, "B T K H"]
    ]:
        """Rotated queries and keys, and values; biased and normalised as they are."""
        a = self.architecture
        normed_BTD = self.attention_norm(x_BTD)
        q_BTNH = self._projected("q", normed_BTD, self.q_DNH[...])
        k_BTKH = self._projected("k", normed_BTD, self.k_DKH[...])
        v_BTKH = self._projected("v", normed_BTD, self.v_DKH[...])
        if a.has_qkv_bias:
            q_BTNH += jnp.broadcast_to(self.q_bias_NH[...], q_BTNH.shape)
            k_BTKH += jnp.broadcast_to(self.k_bias_KH[...], k_BTKH.shape)
            v_BTKH += jnp.broadcast_to(self.v_bias_KH[...], v_BTKH.shape)
        if a.has_qk_norm:
            q_BTNH, k_BTKH = self.q_norm(q_BTNH), self.k_norm(k_BTKH)
        return (
            rotate(q_BTNH, positions_BT, a.rope_theta, a.rope_scaling),
            rotate(k_BTKH, positions_BT, a.rope_theta, a.rope_scaling),
            v_BTKH,
        )

    def finish(
        self, x_BTD: Float[Array, "B T D"], attended_BTNH: Float[Array, "B T N H"]
    ) -> Float[Array, "B T D"]:
        """Adds the attention's output and the MLP to the residual stream."""
        B, T, N, H = attended_BTNH.shape
        o_XD = self.o_NHD[...].reshape(N * H, -1)
        x_BTD += self._projected("o", attended_BTNH.reshape(B, T, N * H), o_XD)
        normed_BTD = self.mlp_norm(x_BTD)
        gate_BTF = jax.nn.silu(self._projected("gate", normed_BTD, self.gate_DF[...]))
        up_BTF = self._projected("up", normed_BTD, self.up_DF[...])
        return x_BTD + self._projected("down", gate_BTF * up_BTF, self.down_FD[...])

    def _projected(self, target: str, x_BTX: Array, kernel: Array) -> Array:
        """The product of x and a kernel, and what the kernel's adapter adds to it."""
        out = _project(x_BTX, kernel)
        names = ADAPTERS[target]
        if not hasattr(self, names.a):
            return out
        a, b = getattr(self, names.a)[...], getattr(self, names.b)[...]
        return out + _project(_project(x_BTX, a.reshape(-1, a.shape[-1])), b)


def dense(
    rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int, scale: float = 1.0
) -> nnx.Param:
    """A matrix of normal draws with deviation scale / sqrt(fan_in)."""
    return nnx.Param(scale * fan_in**-0.5 * normal_draws(rngs, shape))


def normal_draws(rngs: nnx.Rngs, shape: tuple[int, ...]) -> Array:
    """Standard normal draws, the same to the bit inside and outside of jit.

    Without the barrier a compiler merges the caller's factor with one inside of the
    draws, and what is born sharded under jit differs in the last bit.
    """
    return jax.lax.optimization_barrier(jax.random.normal(rngs.params(), shape))


def bias(shape: tuple[int, ...]) -> nnx.Param:
    """A bias that adds nothing yet."""
    return nnx.Param(jnp.zeros(shape, jnp.float32))


def _project(x_BTD: Array, kernel: Array) -> Array:
    """The product over the last dim of x, flattened to one of two matrices.

    The weight gradient of a 3-D contraction is slow on CPU; a 2-D one is not.
    """
    flat_XD = x_BTD.reshape(-1, x_BTD.shape[-1])
    out_XF = flat_XD @ kernel.reshape(kernel.shape[0], -1)
    return out_XF.reshape(*x_BTD.shape[:-1], *kernel.shape[1:])
