"""The layouts that a step can have over given devices."""

from collections.abc import Iterator
from typing import get_args

from jaxgrpo.config import Config, ModelConfig
from jaxgrpo.config_toml import toml_document
from jaxgrpo.device.cuts import legal_microbatches
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.placement import divisors
from jaxgrpo.plan.estimate import Layout, Workload

REMATS: tuple[str, ...] = get_args(ModelConfig.model_fields["remat"].annotation)
"""Names of what is kept for the backward pass, least recomputation first."""

_FIELDS = {
    "data": "mesh.data",
    "fsdp": "mesh.fsdp",
    "tensor": "mesh.tensor",
    "microbatches": "objective.microbatches",
    "remat": "model.remat",
}
"""Part of a layout: its field of the configuration."""


def legal_layouts(w: Workload, num_devices: int) -> Iterator[Layout]:
    """Every layout of a step over so many devices, whatever it takes.

    Args:
      w: Sizes of the step.
      num_devices: Of the mesh.
    """
    num_prompts = w.num_prompts // w.minibatches
    for tensor in divisors(num_devices):
        for fsdp in divisors(num_devices // tensor):
            data = num_devices // tensor // fsdp
            if not _splits(w.architecture, fsdp, tensor) or num_prompts % (data * fsdp):
                continue
            for parts in legal_microbatches(num_prompts, w.group_size, data * fsdp):
                for remat in REMATS:
                    yield Layout(data, fsdp, tensor, parts, remat)


def _splits(a: Architecture, fsdp: int, tensor: int) -> bool:
    """Whether the axes divide all that they split."""
    along_tensor = (a.num_heads, a.num_kv_heads, a.mlp_width, a.vocab_size)
    return not a.width % fsdp and not any(size % tensor for size in along_tensor)


def with_layout(config: Config, layout: Layout) -> Config:
    """The same run, laid out otherwise."""
    return config.model_copy(
        update={
            table: getattr(config, table).model_copy(update=fields)
            for table, fields in _tables(layout).items()
        }
    )


def layout_toml(layout: Layout) -> str:
    """The layout as tables of a configuration.

    Example:
      >>> print(layout_toml(Layout(1, 4, 2, 2, "full")).splitlines()[:2])
      ['[mesh]', 'data = 1']
    """
    return toml_document(_tables(layout))


def _tables(layout: Layout) -> dict[str, dict[str, int | str]]:
    tables: dict[str, dict[str, int | str]] = {}
    for part, name in _FIELDS.items():
        table, _, field = name.partition(".")
        tables.setdefault(table, {})[field] = getattr(layout, part)
    return tables


def changes(layout: Layout, other: Layout) -> list[str]:
    """The overrides that turn one layout into another.

    Example:
      >>> changes(Layout(1, 4, 2, 2, "full"), Layout(1, 8, 1, 2, "full"))
      ['mesh.fsdp=8', 'mesh.tensor=1']
    """
    return [
        f"{name}={getattr(other, part)}"
        for part, name in _FIELDS.items()
        if getattr(layout, part) != getattr(other, part)
    ]
