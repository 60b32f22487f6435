"""How hard problems are: a histogram of pass rates."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from jaxgrpo.problems.pass_rates import PassRate, Provenance
from jaxgrpo.report.style import AMBER, GREEN, RED, styled

_MOST_BARS = 17
"""Above so many samples, rates are gathered into twentieths."""
_NUM_BINS = 20


def write_pass_rates(
    rates: Sequence[PassRate], provenance: Provenance, path: Path
) -> None:
    """Draws the histogram.

    Args:
      rates: Of all problems.
      provenance: What they were measured with.
      path: PNG file to write.
    """
    FigureCanvasAgg(pass_rate_figure(rates, provenance)).print_png(path)


def pass_rate_figure(rates: Sequence[PassRate], provenance: Provenance) -> Figure:
    """Returns one bar for each number of samples that passed, coloured by class.

    Args:
      rates: Of all problems; those without a verdict are left out.
      provenance: What they were measured with.
    """
    values = np.array([rate.value for rate in rates if rate.value is not None])
    edges, centres = _bins(provenance.num_samples)
    counts, _ = np.histogram(values, edges)
    # The ends are classes of their own: a rate near one of them is still in between.
    is_solved, is_unsolved = values == 1.0, values == 0.0
    heights = [
        (RED, "unsolved", np.histogram(values[is_unsolved], edges)[0]),
        (
            AMBER,
            "partly solved",
            np.histogram(values[~is_solved & ~is_unsolved], edges)[0],
        ),
        (GREEN, "solved", np.histogram(values[is_solved], edges)[0]),
    ]
    p = provenance
    with styled():
        figure = Figure(figsize=(7.0, 3.6), dpi=130, layout="constrained")
        ax = figure.subplots()
        below = np.zeros(len(centres))
        width = 0.85 * (edges[1] - edges[0])
        for color, label, height in heights:
            share = height.sum() / max(len(values), 1)
            text = f"{label}: {height.sum():,} ({share:.0%})"
            ax.bar(centres, height, width, below, color=color, label=text)
            below = below + height
        for x, count in zip(centres, counts, strict=True):
            if count and len(centres) <= _MOST_BARS:
                ax.annotate(
                    f"{count:,}", (x, count), ha="center", va="bottom", fontsize=8.0
                )
        ax.set_ylim(0.0, 1.25 * max(counts.max(initial=0), 1))
        ax.set_xlabel("samples that passed")
        ax.set_ylabel("problems")
        if len(centres) <= _MOST_BARS:
            labels = [f"{k}/{p.num_samples}" for k in range(len(centres))]
            ax.set_xticks(centres, labels)
        else:
            ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(visible=False, axis="x")
        ax.legend(loc="upper center", ncols=3)
        step = f", step {p.step}" if p.step else ""
        ax.set_title(
            f"{p.dataset} {p.split}: {len(values):,} problems, {p.num_samples} samples "
            f"each\n{p.source}{step}, temperature {p.temperature:g}"
        )
    return figure


def _bins(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges and centres: one bar a rate, or twentieths where there are many rates."""
    if num_samples + 1 <= _MOST_BARS:
        centres = np.arange(num_samples + 1) / num_samples
        half = 0.5 / num_samples
        return np.append(centres - half, 1.0 + half), centres
    edges = np.linspace(0.0, 1.0, _NUM_BINS + 1)
    return edges, (edges[:-1] + edges[1:]) / 2
