"""How long work takes at best: what it computes, moves and receives, at peak rates.

    compute = FLOPs / peak          memory = bytes / bandwidth
    network = received / link + hops * time of a hop

The longest of the three bounds the whole, if they overlap perfectly. They never do, and
no rate is reached: expect half of it, and judge plans against one another.

Reference:
  Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785.
"""

from dataclasses import dataclass

from jaxgrpo.plan.costs import Costs
from jaxgrpo.plan.hardware import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a phase's work on every device, by what they are spent on."""

    compute_s: float
    memory_s: float
    network_s: float

    @property
    def at_best_s(self) -> float:
        """If the three overlap perfectly."""
        return max(self.compute_s, self.memory_s, self.network_s)

    @property
    def in_turn_s(self) -> float:
        """If nothing is computed while arrays are exchanged: for comparisons."""
        return max(self.compute_s, self.memory_s) + self.network_s

    @property
    def bound(self) -> str:
        """What takes longest: compute, memory or network."""
        parts = {
            "compute": self.compute_s,
            "memory": self.memory_s,
            "network": self.network_s,
        }
        return max(parts, key=parts.__getitem__)


def times(costs: Costs, chip: Chip) -> Times | None:
    """How long work takes on a chip, at its peak rates; None if they are unknown.

    Args:
      costs: On each device.
      chip: The device.

    Example:
      >>> from jaxgrpo.plan.hardware import TPUS
      >>> found = times(Costs(flops=197e12, memory_bytes=2 * 819e9), TPUS["v5e"])
      >>> found.bound, found.at_best_s
      ('memory', 2.0)
    """
    if not chip.flops_per_s:
        return None
    return Times(
        compute_s=costs.flops / chip.flops_per_s,
        memory_s=costs.memory_bytes / chip.memory_bytes_per_s,
        network_s=costs.received_bytes / chip.link_bytes_per_s
        + costs.hops * chip.hop_s,
    )
