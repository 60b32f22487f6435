"""What a plan prints, and what it advises."""

import json
from dataclasses import replace

import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.plan.advice import advice_lines
from jaxgrpo.plan.collectives import Collective
from jaxgrpo.plan.compilation import (
    Buffer,
    CompiledProgram,
    _is_of_logits,
    compile_program,
    largest_buffers,
)
from jaxgrpo.plan.costs import Costs
from jaxgrpo.plan.planning import EVALUATION, Plan, Target, find_target, make_plan
from jaxgrpo.plan.programs import DECODE, PREFILL, UPDATE
from jaxgrpo.plan.report import plan_data, plan_lines

RUN = """
[model]
preset = "qwen3-4b"
tokenizer = "builtin:output_prediction_tokenizer"
remat = "{remat}"
[prompt]
max_prompt_tokens = 1024
[sampling]
problems_per_step = 4
group_size = 16
max_new_tokens = 4096
[objective]
microbatches = 8
logprob_chunk = 4096
[rewards.exact]
[evaluation]
batch_problems = 4
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """By arithmetic on one H200: with everything recomputed, and with nothing."""
    found = {}
    for remat in ("full", "none"):
        path = tmp_path_factory.mktemp("report") / "run.toml"
        path.write_text(RUN.format(remat=remat))
        config = load_config(path)
        target = find_target(config, "gpu:h200")
        found[remat] = make_plan(config, target, lambda line: None)
    return found


def with_program(plan: Plan) -> Plan:
    program = CompiledProgram(
        name="update",
        phase=UPDATE,
        compile_s=12.3,
        arguments=100,
        outputs=10,
        aliased=10,
        temporaries=50,
        code=5,
        resident=1000,
        has_weights=False,
        has_cache=False,
        calls=1.0,
        costs=Costs(
            flops=1e12,
            collectives={Collective("all-reduce", "bf16[8]", 2**20, 4): 3.0},
        ),
        largest=(Buffer(shape="bf16[8,8]", num_bytes=2**20, source="jit(f)/dot"),),
        largest_logits=Buffer(shape="f32[4,9]", num_bytes=144, source=""),
    )
    return replace(plan, programs=(program,))


def test_every_phase_has_a_column(plans):
    (header,) = [
        line for line in plan_lines(plans["full"]) if line.startswith("GiB on each")
    ]
    assert header.split()[4:] == [PREFILL, DECODE, UPDATE, EVALUATION]


def test_parts_add_up_to_the_total(plans):
    for memory in plans["none"].memory:
        assert sum(memory.parts.values()) == memory.total


def test_a_plan_that_fits_says_what_is_left(plans):
    lines = plan_lines(plans["full"])
    assert plans["full"].fits
    assert lines[-1].startswith("It fits: ") and lines[-1].endswith("on each device.")


def test_a_plan_that_does_not_fit_says_what_to_change(plans):
    plan = plans["none"]
    assert list(plan.missing) == [UPDATE]
    lines = plan_lines(plan)
    assert any(line.startswith("It does not fit: update needs") for line in lines)
    assert any("model.remat=full takes about" in line for line in advice_lines(plan))
    assert "--fit" in lines[-1]


def test_advice_is_true(plans):
    # What the advice promises is the difference of the two plans.
    (line,) = [text for text in advice_lines(plans["none"]) if "remat=full" in text]
    promised = float(line.split("about ")[1].split(" GiB")[0].replace(",", ""))
    totals = [
        next(m.total for m in plan.memory if m.phase == UPDATE)
        for plan in (plans["none"], plans["full"])
    ]
    assert promised == pytest.approx((totals[0] - totals[1]) / 2**30, abs=0.1)


def test_programs_are_shown_with_collectives_and_buffers(plans):
    text = "\n".join(plan_lines(with_program(plans["full"])))
    assert "update: once a step, 12 s to compile" in text
    assert "all-reduce" in text and "bf16[8]" in text
    assert "largest buffers: bf16[8,8] 1.0 MiB" in text
    assert "largest logits: f32[4,9]" in text


def test_no_line_has_an_odd_end(plans):
    for line in plan_lines(with_program(plans["none"])):
        assert line == line.rstrip()


def test_data_survives_json_and_has_the_same_figures(plans):
    plan = with_program(plans["none"])
    data = json.loads(json.dumps(plan_data(plan)))
    assert data["fits"] is False
    assert [m["total"] for m in data["memory"]] == [m.total for m in plan.memory]
    assert data["layout"]["remat"] == "none"
    assert data["programs"][0]["total"] == 100 + 50 + 5 + 1000
    assert data["work"][2]["times"]["bound"] in ("compute", "memory", "network")
    assert data["advice"] == advice_lines(plan)


# Compiled programs


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Target]:
    path = tmp_path_factory.mktemp("here") / "run.toml"
    text = RUN.format(remat="full").replace("qwen3-4b", "qwen3-tiny")
    path.write_text(text)
    config = load_config(
        path,
        [
            "prompt.max_prompt_tokens=16",
            "sampling.max_new_tokens=16",
            "sampling.group_size=4",
            "evaluation.batch_problems=4",
            "objective.microbatches=1",
            "objective.logprob_chunk=16",
            "mesh.fsdp=4",
            "mesh.tensor=2",
        ],
    )
    return config, find_target(config, "here")


@pytest.fixture(scope="module")
def compiled(here: tuple[Config, Target]) -> tuple[Plan, list[str]]:
    lines: list[str] = []
    return make_plan(*here, lines.append), lines


def test_a_plan_for_the_present_devices_is_compiled(compiled):
    plan, lines = compiled
    assert plan.topology.num_devices == 8
    assert [p.name for p in plan.programs] == [
        "cast_weights", "prefill", "insert", "decode_segment", "update",
    ]  # fmt: skip
    assert plan.fits
    assert "compiling update for here ..." in lines
    assert plan.work[2].times is None  # what the machine can do is not known
    text = "\n".join(plan_lines(plan))
    assert "seconds at best" not in text


def test_compiled_work_is_near_the_arithmetic(compiled, here):
    plan, _ = compiled
    update = next(p for p in plan.programs if p.name == "update")
    from jaxgrpo.plan import estimate

    expected = estimate.update_estimate(plan.workload, plan.layout, 1).costs.flops
    # Attention in plain XLA multiplies what it then masks, rows are padded by one.
    assert 0.9 * expected < update.costs.flops < 1.6 * expected


def test_decoding_reads_the_whole_cache_in_turn(compiled):
    plan, _ = compiled
    decode = next(p for p in plan.programs if p.name == "decode_segment")
    steps = decode.calls * 64
    assert steps == 16
    assert decode.costs.flops > 0
    kinds = {c.kind for c in decode.costs.collectives}
    assert "all-reduce" in kinds


def test_logits_of_all_tokens_never_exist(compiled, here):
    plan, _ = compiled
    update = next(p for p in plan.programs if p.name == "update")
    assert update.largest_logits is not None
    vocab = plan.workload.architecture.vocab_size // 2
    positions = update.largest_logits.num_bytes // 4 // vocab
    # 16 tokens at a time over all rows, of the 64 of a device.
    assert positions <= 16


def test_the_gradient_of_the_head_is_summed_once_and_not_every_chunk(compiled):
    plan, _ = compiled
    update = next(p for p in plan.programs if p.name == "update")
    a = plan.workload.architecture
    head_bytes = a.vocab_size // 2 * a.width * 4
    num_chunks = 16  # a token of each of a device's four rows at a time
    large = {
        collective: times
        for collective, times in update.costs.collectives.items()
        if collective.num_bytes >= head_bytes
    }
    assert large
    assert max(large.values()) < num_chunks


def test_the_largest_buffers_come_first(tpu_update):
    buffers = largest_buffers(tpu_update)
    sizes = [buffer.num_bytes for buffer in buffers]
    assert sizes == sorted(sizes, reverse=True)
    assert len({buffer.shape for buffer in buffers}) == len(buffers)


def test_a_refusal_becomes_what_is_needed(here, monkeypatch):
    import jax

    from jaxgrpo.plan.compilation import OutOfMemoryError
    from jaxgrpo.plan.planning import layout_of
    from jaxgrpo.plan.programs import step_programs

    config, target = here
    mesh = target.mesh(layout_of(config, target.topology))
    update = step_programs(config, target.policy, mesh, "cpu").programs[-1]

    class Lowered:
        def compile(self) -> None:
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory "
                "required for HLO temporaries (2.00G) exceeds available HBM (1.00G)."
            )

    program = replace(update, lower=lambda *_: Lowered())
    with pytest.raises(OutOfMemoryError) as caught:
        compile_program(program, vocab_dims={448}, width=32)
    assert caught.value.needed > 2 * 2**30


@pytest.mark.parametrize(
    ("shape", "is_of_logits"),
    [
        ("f32[8,128,151936]", True),  # as many tokens as the model is wide
        ("f32[16,151936]", True),
        ("bf16[151936,1024]", False),
        ("f32[1024,151936]", False),
        ("f32[151936]", False),
        ("f32[8,128,1024]", False),
        ("s32[]", False),
    ],
)
def test_logits_are_told_from_weights(shape, is_of_logits):
    assert _is_of_logits(shape, {151936}, 1024) == is_of_logits
