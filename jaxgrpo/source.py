"""A trained model by its name: run folder, checkpoint folder, or `builtin:NAME`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from jaxgrpo import checkpoint
from jaxgrpo.assembly import check_base, lora_settings
from jaxgrpo.config import Config
from jaxgrpo.config_loading import config_of_checkpoint, load_config
from jaxgrpo.device.model.decoder import Params, Weights, initial_params
from jaxgrpo.device.model.lora import Adapted, FrozenBase, initial_adapters
from jaxgrpo.policy import Policy, check_lengths, initial_weights, load_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model with its weights, and the configuration to use it with."""

    config: Config
    policy: Policy
    params: Weights
    step: int
    """Updates of the run it stems from; 0 for a checkpoint folder."""


def source_config(name: str, overrides: list[str]) -> Config:
    """The configuration to use a model with: its run's, or the defaults. Loads no jax.

    Args:
      name: As for `open_source`.
      overrides: Changes to it.
    """
    path = Path(name).expanduser() / "config.toml"
    if path.is_file():
        return load_config(path, overrides)
    return config_of_checkpoint(name, overrides)


def open_source(name: str, overrides: list[str], step: int | None = None) -> Source:
    """Loads a model.

    Args:
      name: Run folder, checkpoint folder in Hugging Face layout, or `builtin:NAME`.
      overrides: Changes to the run's configuration, or to the defaults.
      step: Of a run's checkpoint; the newest if not given.

    Raises:
      ValueError: If there is nothing of that name, or a run has no checkpoint yet, or
        none of that step.
    """
    folder = Path(name).expanduser()
    if not (folder / "config.toml").is_file():
        if step is not None:
            raise ValueError(
                f"step {step} of {name}, which is no run folder. Name a run, or leave "
                "out the step."
            )
        config = source_config(name, overrides)
        policy = load_policy(config.model, config.prompt)
        check_lengths(config, policy)
        params = jax.tree.map(jnp.asarray, initial_weights(policy, config))
        return Source(config=config, policy=policy, params=params, step=0)
    config = source_config(name, overrides)
    policy = load_policy(config.model, config.prompt)
    check_lengths(config, policy)
    saved = folder / "checkpoints"
    latest = checkpoint.latest_step(saved) if saved.is_dir() else None
    if latest is None:
        raise ValueError(
            f"run {name} has no checkpoint yet. Wait for step "
            f"{config.checkpoint.every_steps}, its checkpoint.every_steps."
        )
    step = latest if step is None else step
    abstract = jax.eval_shape(partial(_trained, policy, config), jax.random.key(0))
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), abstract
    )
    restored = checkpoint.restore_part(saved, step, {"params": abstract})
    params = jax.tree.map(jnp.asarray, restored["params"])
    lora = lora_settings(config)
    if lora is not None:
        base = FrozenBase(initial_weights(policy, config), jnp.float32(lora.scale))
        check_base(base, checkpoint.saved_loop_state(saved, step), step)
        params = Adapted(params, base)
    return Source(config=config, policy=policy, params=params, step=step)


def _trained(policy: Policy, config: Config, key: jax.Array) -> Params:
    """What a run of this configuration trains, as it begins."""
    lora = lora_settings(config)
    if lora is None:
        return initial_params(policy.architecture, key)
    return initial_adapters(policy.architecture, lora, key)
