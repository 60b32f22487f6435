"""Evaluations side by side as one picture: `evaluation.png` in the run folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from jaxgrpo.report.evaluation_table import LABELS, Evaluation
from jaxgrpo.report.style import AMBER, BLUE, GREEN, GREY, LIGHT_BLUE, RED, styled

_COLUMN_COLORS = (LIGHT_BLUE, BLUE, GREY, AMBER)

_GROUPS = (
    ("groups/all_wrong", RED),
    ("groups/mixed", AMBER),
    ("groups/all_correct", GREEN),
)
_TAXONOMY = (
    ("taxonomy/not_one_literal", GREY),
    ("taxonomy/wrong_value", RED),
    ("taxonomy/wrong_repr", AMBER),
    ("taxonomy/exact", GREEN),
)


def write_evaluation(run_folder: Path, evaluations: Mapping[str, Evaluation]) -> Path:
    """Draws evaluations side by side.

    Args:
      run_folder: Where to write.
      evaluations: By title in order, such as before, after, reference.

    Returns:
      Path of the picture.
    """
    path = run_folder / "evaluation.png"
    FigureCanvasAgg(evaluation_figure(evaluations)).print_png(path)
    return path


def evaluation_figure(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Returns exact match and pass@k with standard errors, error classes and groups."""
    stacks = [
        (title, parts)
        for title, parts in (
            ("Kinds of error, greedy", _TAXONOMY),
            ("Groups of samples", _GROUPS),
        )
        if any(name in e for e in evaluations.values() for name, _ in parts)
    ]
    with styled():
        figure = Figure(figsize=(11.2, 4.2), dpi=130, layout="constrained")
        left, right = figure.subfigures(1, 2, squeeze=False)[0]
        _scores(left.subplots(), evaluations)
        for i, (title, parts) in enumerate(stacks):
            _stack(right.add_subplot(len(stacks), 1, i + 1), evaluations, title, parts)
    return figure


def _scores(ax: Axes, evaluations: Mapping[str, Evaluation]) -> None:
    found = {name: None for e in evaluations.values() for name in e}
    names = [name for name in found if name == "exact_match" or "pass@" in name]
    width = 0.8 / len(evaluations)
    for i, (title, evaluation) in enumerate(evaluations.items()):
        present = [j for j, name in enumerate(names) if name in evaluation]
        offset = (i - (len(evaluations) - 1) / 2) * width
        bars = ax.bar(
            [j + offset for j in present],
            [evaluation[names[j]]["value"] for j in present],
            width,
            yerr=[evaluation[names[j]]["se"] for j in present],
            color=_COLUMN_COLORS[i % len(_COLUMN_COLORS)],
            error_kw={"capsize": 2.5, "linewidth": 1.0},
            label=title,
        )
        ax.bar_label(
            bars, fmt=lambda share: f"{100 * share:.1f}", padding=2, fontsize=7.5
        )
    labels = [LABELS.get(name, name).replace(", ", ",\n") for name in names]
    ax.set_xticks(np.arange(len(names)), labels)
    ax.grid(visible=False, axis="x")
    ax.set_ylim(0.0, 1.0 if _highest(names, evaluations) < 0.9 else 1.08)
    ax.set_yticks(np.arange(0.0, 1.01, 0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylabel("share of problems (± 1 s.e.)")
    ax.set_title("Solved problems")
    ax.legend(loc="upper left", ncols=len(evaluations))


def _highest(names: Sequence[str], evaluations: Mapping[str, Evaluation]) -> float:
    return max(
        (e[name]["value"] for e in evaluations.values() for name in names if name in e),
        default=0.0,
    )


def _stack(
    ax: Axes,
    evaluations: Mapping[str, Evaluation],
    title: str,
    parts: Sequence[tuple[str, str]],
) -> None:
    shown = [
        name for name in evaluations if any(p in evaluations[name] for p, _ in parts)
    ]
    left = np.zeros(len(shown))
    for name, color in parts:
        entries = [evaluations[column].get(name) for column in shown]
        shares = np.array([0.0 if e is None else e["value"] for e in entries])
        label = LABELS.get(name, name).removeprefix("groups: ")
        bars = ax.barh(shown, shares, left=left, color=color, label=label, height=0.7)
        texts = [f"{100 * share:.0f}" if share >= 0.04 else "" for share in shares]
        ax.bar_label(bars, texts, label_type="center", fontsize=8)
        left += shares
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.0)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.grid(visible=False)
    ax.set_xlabel("share of problems")
    ax.set_title(title)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
