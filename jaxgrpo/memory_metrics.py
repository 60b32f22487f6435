"""Memory that a run uses, under verl's names."""

import resource
import sys

import jax

_GIB = 2**30


def memory_metrics() -> dict[str, float]:
    """Returns the peak memory so far, in GiB: of the devices and of this process.

    The devices' is that of the fullest one here, and left out where the platform does
    not tell it (CPU).
    """
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    metrics = {"perf/cpu_memory_used_gb": resident / _GIB}
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [found["peak_bytes_in_use"] for found in stats
             if "peak_bytes_in_use" in found]  # fmt: skip
    if peaks:
        metrics["perf/max_memory_allocated_gb"] = max(peaks) / _GIB
    return metrics
