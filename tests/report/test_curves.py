import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jaxgrpo.metrics_log import MetricLog
from jaxgrpo.report.curves import curves_figure, running_mean, write_curves
from jaxgrpo.report.evaluation_chart import evaluation_figure, write_evaluation

GRPO_TITLES = [
    "Reward and exact match",
    "Groups",
    "Completion length",
    "Gradient and entropy",
    "Sampler against trainer",
    "Speed",
]


def grpo_line(step: int) -> dict[str, float]:
    return {
        "step": step,
        "reward": 0.1 + step / 100,
        "frac_reward_zero_std": 0.7,
        "frac_reward_all_zero": 0.5,
        "frac_reward_all_one": 0.2,
        "completions/mean_length": 6.0,
        "completions/clipped_ratio": 0.0,
        "grad_norm": 0.5,
        "entropy": 0.3,
        "sampling/sampling_logp_difference/mean": 0.0,
        "sampling/sampling_logp_difference/max": 1e-6,
        "perf/tokens_per_s": 1000.0,
    }


def drawn(lines) -> Figure:
    figure = curves_figure(lines, "a run")
    assert figure is not None
    figure.canvas.draw()
    return figure


def panels(figure: Figure):
    return [ax for ax in figure.axes if ax.get_title(loc="left")]


def titles(figure: Figure) -> list[str]:
    return [ax.get_title(loc="left") for ax in panels(figure)]


@pytest.mark.parametrize("num_steps", [1, 2, 60])
def test_a_grpo_run_shows_six_panels(num_steps):
    assert titles(drawn([grpo_line(i + 1) for i in range(num_steps)])) == GRPO_TITLES


def test_a_supervised_run_shows_its_loss():
    metrics = {"loss": 1.0, "grad_norm": 1.0, "perf/trained_tokens_per_s": 9.0}
    lines = [{"step": step, **metrics} for step in (1, 2)]
    assert titles(drawn(lines)) == ["Loss", "Gradient", "Speed"]


def test_every_panel_names_its_axes():
    figure = drawn([grpo_line(1), grpo_line(2)])
    assert all(ax.get_ylabel() for ax in figure.axes)
    assert all(ax.get_xlabel() == "step" for ax in panels(figure))


def test_all_panels_span_the_same_steps():
    figure = drawn([{"step": 0, "eval/exact_match": 0.2}, grpo_line(1), grpo_line(9)])
    assert len({ax.get_xlim() for ax in panels(figure)}) == 1


def test_the_held_out_score_is_drawn_where_it_was_measured():
    scored = {**grpo_line(4), "eval/exact_match": 0.4, "eval_se/exact_match": 0.02}
    figure = drawn([grpo_line(1), scored, grpo_line(5)])
    ax = panels(figure)[0]
    (bars,) = ax.containers
    assert isinstance(bars, ErrorbarContainer)
    np.testing.assert_allclose(np.asarray(bars.lines[0].get_xydata()), [[4.0, 0.4]])


def test_the_shares_of_groups_fill_the_panel():
    ax = panels(drawn([grpo_line(1), grpo_line(2)]))[1]
    outlines = [np.asarray(band.get_paths()[0].vertices) for band in ax.collections]
    tops = [outline[:, 1].max() for outline in outlines]
    np.testing.assert_allclose(tops, [0.5, 0.8, 1.0])


def test_ties_at_other_rewards_get_their_own_band():
    lines = [grpo_line(i) | {"frac_reward_zero_std": 0.9} for i in (1, 2)]
    ax = panels(drawn(lines))[1]
    legend = ax.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["all wrong", "tied between", "mixed (these teach)", "all correct"]


def test_values_that_are_not_finite_are_left_out():
    lines = [grpo_line(1), grpo_line(2) | {"grad_norm": np.nan}, grpo_line(3)]
    ax = panels(drawn(lines))[3]
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), [1, 3])


def test_nothing_to_draw_is_no_picture(tmp_path):
    with MetricLog(tmp_path, wandb_mode="disabled", project="t", config={}) as log:
        log.write(0, {"eval/num_problems": 5})
        assert write_curves(tmp_path) is None


def test_the_picture_is_written(tmp_path):
    with MetricLog(tmp_path, wandb_mode="disabled", project="t", config={}) as log:
        log.write(1, {"reward": 0.5, "perf/tokens_per_s": 5.0})
    path = write_curves(tmp_path)
    assert path is not None and path == tmp_path / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG")


@given(st.lists(st.integers(-9, 9), min_size=5, max_size=5), st.sampled_from([1, 3, 9]))
def test_a_running_mean_equals_its_loop(values, window):
    half = window // 2
    expected = [np.mean(values[max(0, i - half) : i + half + 1]) for i in range(5)]
    np.testing.assert_allclose(
        running_mean(np.array(values, float), window), expected, atol=1e-12
    )


def evaluation(exact: float, *, with_samples: bool = True) -> dict:
    shares = {
        "exact_match": exact,
        "error_class/exact": exact,
        "error_class/wrong_value": 0.9 - exact,
        "error_class/wrong_repr": 0.06,
        "error_class/not_one_literal": 0.04,
    }
    if with_samples:
        shares |= {
            "pass@1": exact,
            "pass@8": exact + 0.1,
            "frac_reward_all_zero": 0.9 - exact,
            "frac_reward_mixed": 0.1,
            "frac_reward_all_one": exact,
        }
    estimates = {name: {"value": v, "se": 0.01} for name, v in shares.items()}
    return {"num_problems": 100, **estimates}


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]


def test_the_evaluation_shows_scores_errors_and_groups():
    figure = evaluation_figure({"before": evaluation(0.2), "after": evaluation(0.6)})
    figure.canvas.draw()
    assert titles(figure) == [
        "Solved problems",
        "Kinds of error, greedy",
        "Groups of samples",
    ]


def test_bars_have_the_values_and_standard_errors():
    figure = evaluation_figure({"before": evaluation(0.2), "after": evaluation(0.6)})
    scores = figure.axes[0]
    np.testing.assert_allclose(heights(scores), [0.2, 0.2, 0.3, 0.6, 0.6, 0.7])
    error_bar = np.asarray(scores.collections[0].get_paths()[0].vertices)
    np.testing.assert_allclose(error_bar[:, 1], [0.19, 0.21])


def test_an_evaluation_of_programs_shows_their_classes():
    def share(value: float) -> dict[str, float]:
        return {"value": value, "se": 0.01}

    programs = {
        "num_problems": 10, "exact_match": share(0.5), "error_class/passed": share(0.5),
        "error_class/wrong_answer": share(0.2), "error_class/crash": share(0.1),
        "error_class/timeout": share(0.2),
    }  # fmt: skip
    figure = evaluation_figure({"after": programs})
    legend = figure.axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "timeout", "crash", "wrong answer", "passed",
    ]  # fmt: skip


def test_an_evaluation_without_samples_leaves_its_place_empty(tmp_path):
    columns = {
        "before": evaluation(0.2),
        "reference": evaluation(0.7, with_samples=False),
    }
    figure = evaluation_figure(columns)
    np.testing.assert_allclose(heights(figure.axes[0]), [0.2, 0.2, 0.3, 0.7])
    groups = figure.axes[2]
    assert [text.get_text() for text in groups.get_yticklabels()] == ["before"]
    assert write_evaluation(tmp_path, columns).read_bytes().startswith(b"\x89PNG")


def test_drawing_leaves_the_global_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawn([grpo_line(1), grpo_line(2)])
    assert dict(matplotlib.rcParams) == before
