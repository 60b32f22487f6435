"""One page of curves from a run's metrics: `curves.png` in the run folder."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from jaxgrpo.metrics_log import read_metrics
from jaxgrpo.report.style import AMBER, BLUE, GREEN, GREY, RED, styled

Series = tuple[np.ndarray, np.ndarray]
"""Steps and values; steps without a value are left out."""

Panel = Callable[[Axes, Mapping[str, Series]], None]

_ROUNDING = 1e-6
"""Shares below it are sums that miss 1 by rounding."""


def write_curves(run_folder: Path) -> Path | None:
    """Draws the curves of a run into its folder.

    Args:
      run_folder: Folder with `metrics.jsonl`.

    Returns:
      Path of the picture, or None where nothing can be drawn yet.
    """
    figure = curves_figure(read_metrics(run_folder), run_folder.absolute().name)
    if figure is None:
        return None
    path = run_folder / "curves.png"
    FigureCanvasAgg(figure).print_png(path)
    return path


def curves_figure(
    lines: Sequence[Mapping[str, float]], title: str = ""
) -> Figure | None:
    """Returns the page of curves; None where there is no panel with data.

    Args:
      lines: Metrics by name, each with its `step`.
      title: Name of the run.
    """
    series = {name: _series(lines, name) for name in _names(lines)}
    choice = _panels_of(series)
    panels = [panel for needed, panel in choice if needed in series]
    if not panels:
        return None
    num_columns = min(2, len(panels))
    num_rows = -(-len(panels) // num_columns)
    size = (5.6 * num_columns, 3.1 * num_rows + 0.4)
    first, last = lines[0]["step"], lines[-1]["step"]
    pad = max(0.01 * (last - first), 0.05)
    with styled():
        figure = Figure(figsize=size, dpi=130, layout="constrained")
        figure.suptitle(title, fontsize=12.5, fontweight="bold")
        axes = figure.subplots(num_rows, num_columns, squeeze=False).flatten()
        for ax, panel in zip(axes, panels, strict=False):
            panel(ax, series)
            ax.set_xlabel("step")
            ax.set_xlim(first - pad, last + pad)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
    return figure


def _panels_of(series: Mapping[str, Series]) -> tuple[tuple[str, Panel], ...]:
    if "reward" in series:
        return _GRPO_PANELS
    return _PREFERENCE_PANELS if "margin" in series else _SUPERVISED_PANELS


def _names(lines: Sequence[Mapping[str, float]]) -> list[str]:
    found = {
        name for line in lines for name, value in line.items() if np.isfinite(value)
    }
    return sorted(found - {"step"})


def _series(lines: Sequence[Mapping[str, float]], name: str) -> Series:
    points = [
        (line["step"], line[name])
        for line in lines
        if name in line and np.isfinite(line[name])
    ]
    steps, values = np.array(points, np.float64).T
    return steps, values


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Returns the mean over a centred window, which shrinks at both ends.

    Args:
      values: Finite numbers.
      window: Odd number of values.

    Example:
      >>> running_mean(np.array([0.0, 3.0, 6.0, 3.0]), 3)
      array([1.5, 3. , 4. , 4.5])
    """
    ones = np.ones(window)
    counts = np.convolve(np.ones_like(values), ones)
    sums = np.convolve(values, ones)
    half = window // 2
    return (sums / counts)[half : half + len(values)]


def _curve(ax: Axes, series: Series, color: str, label: str) -> None:
    """Draws every value faintly and the running mean on top."""
    steps, values = series
    window = 2 * (len(values) // 50) + 1
    if window > 1:
        ax.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
    marker = "o" if len(values) == 1 else None
    mean = running_mean(values, window)
    ax.plot(steps, mean, color=color, label=label, marker=marker)


def _reward(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Reward and exact match")
    _curve(ax, series["reward"], BLUE, "reward, training samples")
    _held_out(ax, series)
    ax.set_ylabel("mean reward; share of problems")
    ax.legend(loc="best")


def _held_out(ax: Axes, series: Mapping[str, Series]) -> None:
    if "eval/exact_match" not in series:
        return
    steps, values = series["eval/exact_match"]
    errors = dict(zip(*series.get("eval_se/exact_match", ((), ())), strict=True))
    ax.errorbar(
        steps,
        values,
        yerr=[errors.get(step, 0.0) for step in steps],
        color=GREEN,
        marker="o",
        markersize=4,
        capsize=2,
        label="exact match, held-out, greedy (± 1 s.e.)",
    )


def _exact_match(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Exact match")
    _held_out(ax, series)
    ax.set_ylabel("share of problems")
    ax.legend(loc="best")


def _loss(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Loss")
    _curve(ax, series["loss"], BLUE, "loss")
    ax.set_ylabel("training loss (nats per token)")


def _preference_loss(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Loss of pairs")
    _curve(ax, series["loss"], BLUE, "training")
    if "eval/loss" in series:
        ax.plot(*series["eval/loss"], color=GREEN, marker="o", label="held-out")
    ax.axhline(np.log(2.0), color=GREY, linestyle=":", label="no difference told")
    ax.set_ylabel("nats per pair")
    ax.legend(loc="best")


def _ranking(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Right above wrong")
    _curve(ax, series["accuracy"], BLUE, "training pairs")
    held_out = {
        "eval/accuracy": (GREEN, "held-out pairs"),
        "eval/auc_within": (RED, "held-out AUC, within problems"),
        "eval/auc": (GREY, "held-out AUC, all problems"),
    }
    for name, (color, label) in held_out.items():
        if name in series:
            ax.plot(*series[name], color=color, marker="o", markersize=4, label=label)
    ax.set_ylabel("share in the right order")
    ax.legend(loc="lower right")


def _groups(ax: Axes, series: Mapping[str, Series]) -> None:
    """Stacks the shares of groups; ties that are neither 0 nor 1 get a band."""
    steps, tied = series["frac_reward_zero_std"]
    wrong = _at(steps, series.get("frac_reward_all_zero"))
    correct = _at(steps, series.get("frac_reward_all_one"))
    other = np.clip(tied - wrong - correct, 0.0, 1.0)
    bands = [("all wrong", wrong, RED), ("mixed (these teach)", 1.0 - tied, AMBER)]
    if other.max() > _ROUNDING:
        bands.insert(1, ("tied between", other, GREY))
    bands.append(("all correct", correct, GREEN))
    ax.set_title("Groups")
    labels, shares, colors = zip(*bands, strict=True)
    ax.stackplot(steps, *shares, labels=labels, colors=colors, alpha=0.85)
    ax.set_ylim(0.0, 1.0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_ylabel("share of groups")
    above = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.99), "frameon": False}
    ax.legend(ncols=len(bands), columnspacing=1.0, handlelength=1.0, **above)


def _at(steps: np.ndarray, series: Series | None) -> np.ndarray:
    values = {} if series is None else dict(zip(*series, strict=True))
    return np.array([values.get(step, 0.0) for step in steps])


def _lengths(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Completion length")
    _curve(ax, series["completions/mean_length"], BLUE, "mean length")
    ax.set_ylabel("mean length (tokens)")
    if "completions/clipped_ratio" not in series:
        return
    right = _right_axis(ax, RED)
    _curve(right, series["completions/clipped_ratio"], RED, "cut off")
    right.set_ylabel("cut at the token budget")
    right.set_ylim(0.0, max(1.15 * series["completions/clipped_ratio"][1].max(), 0.01))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))


def _gradient(ax: Axes, series: Mapping[str, Series]) -> None:
    _curve(ax, series["grad_norm"], BLUE, "gradient norm")
    ax.set_ylabel("gradient norm before clipping")
    _start_at_zero(ax)
    if "entropy" not in series:
        ax.set_title("Gradient")
        return
    ax.set_title("Gradient and entropy")
    right = _right_axis(ax, RED)
    _curve(right, series["entropy"], RED, "entropy")
    right.set_ylabel("entropy (nats per token)")
    _start_at_zero(right)


def _right_axis(ax: Axes, color: str) -> Axes:
    right = ax.twinx()
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    for axis, shade in ((ax, BLUE), (right, color)):
        axis.yaxis.label.set_color(shade)
        axis.tick_params(axis="y", colors=shade)
    assert isinstance(right, Axes)
    return right


def _sampler_gap(ax: Axes, series: Mapping[str, Series]) -> None:
    """Draws the gaps on a log axis; exact zeros are drawn at its lower end."""
    ax.set_title("Sampler against trainer")
    name = "sampling/sampling_logp_difference"
    gaps = {kind: series[f"{name}/{kind}"] for kind in ("mean", "max")
            if f"{name}/{kind}" in series}  # fmt: skip
    positive = [v for _, values in gaps.values() for v in values if v > 0.0]
    floor = min(positive, default=1e-8) / 2.0
    for (kind, (steps, values)), color in zip(gaps.items(), (BLUE, RED), strict=False):
        _curve(ax, (steps, np.maximum(values, floor)), color, kind)
    ax.set_yscale("log")
    ax.set_ylabel("|log-prob difference| (nats)")
    ax.legend(loc="best")


def _speed(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Speed")
    _curve(ax, series["perf/tokens_per_s"], BLUE, "speed")
    ax.set_ylabel("completion tokens per second")
    _start_at_zero(ax)


def _training_speed(ax: Axes, series: Mapping[str, Series]) -> None:
    ax.set_title("Speed")
    _curve(ax, series["perf/trained_tokens_per_s"], BLUE, "speed")
    ax.set_ylabel("tokens per second of update")
    _start_at_zero(ax)


def _start_at_zero(ax: Axes) -> None:
    ax.set_ylim(0.0, 1.05 * ax.get_ylim()[1])


# The metric that a panel cannot do without, and the panel.
_SUPERVISED_PANELS: tuple[tuple[str, Panel], ...] = (
    ("loss", _loss),
    ("eval/exact_match", _exact_match),
    ("grad_norm", _gradient),
    ("perf/trained_tokens_per_s", _training_speed),
)
_PREFERENCE_PANELS: tuple[tuple[str, Panel], ...] = (
    ("loss", _preference_loss),
    ("accuracy", _ranking),
    ("grad_norm", _gradient),
    ("perf/trained_tokens_per_s", _training_speed),
)
_GRPO_PANELS: tuple[tuple[str, Panel], ...] = (
    ("reward", _reward),
    ("frac_reward_zero_std", _groups),
    ("completions/mean_length", _lengths),
    ("grad_norm", _gradient),
    ("sampling/sampling_logp_difference/mean", _sampler_gap),
    ("perf/tokens_per_s", _speed),
)
