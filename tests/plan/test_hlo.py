"""Reading the text of compiled programs."""

import jax
import jax.numpy as jnp
import pytest

from jaxgrpo.plan.hlo import Module, parse_module

FUSED_CONDITION = """HloModule m

%compared (p.0: s32[], p.1: s32[]) -> pred[] {
  %p.0 = s32[] parameter(0)
  %p.1 = s32[] parameter(1)
  ROOT %lt = pred[] compare(%p.0, %p.1), direction=LT
}

%condition (c: (s32[], f32[8])) -> pred[] {
  %c = (s32[], f32[8]{0}) parameter(0)
  %column = s32[] get-tuple-element(%c), index=0
  %limit = s32[] constant(12)
  ROOT %f = pred[] fusion(%column, %limit), kind=kLoop, calls=%compared
}

%body (b: (s32[], f32[8])) -> (s32[], f32[8]) {
  ROOT %b = (s32[], f32[8]{0}) parameter(0)
}

ENTRY %main (x: (s32[], f32[8])) -> (s32[], f32[8]) {
  %x = (s32[], f32[8]{0}) parameter(0)
  ROOT %loop = (s32[], f32[8]{0}) while(%x), condition=%condition, body=%body
}
"""


def bounds(module: Module) -> list[int | None]:
    """How often the loops of a program turn at most, inner ones first."""
    return [
        module.bound(instruction)
        for computation in module.computations.values()
        for instruction in computation.instructions
        if instruction.opcode == "while"
    ]


def test_a_line_becomes_an_instruction(tpu_update):
    update = tpu_update.entry.by_name["while.27"]
    assert update.opcode == "while"
    assert [str(shape) for shape in update.shapes][:3] == [
        "s32[]", "bf16[64,1024]", "f32[6,256,1024]",
    ]  # fmt: skip
    assert update.called == (
        update.attribute("condition").lstrip("%"),
        update.attribute("body").lstrip("%"),
    )


def test_scratch_memory_is_told_from_main_memory(tpu_decode):
    shapes = {
        str(shape): shape.is_in_main_memory
        for shape in tpu_decode.entry.by_name["while.20"].shapes
    }
    assert shapes["bf16[6,512,512]"]
    in_scratch = [
        instruction
        for computation in tpu_decode.computations.values()
        for instruction in computation.instructions
        if instruction.shapes and not instruction.shapes[0].is_in_main_memory
    ]
    assert in_scratch


def test_loops_that_count_turn_that_often(tpu_update):
    assert bounds(tpu_update) == [6, 6]


def test_a_loop_that_may_end_early_turns_at_most_so_often(tpu_decode):
    assert bounds(tpu_decode) == [6, 64]


def test_the_bound_is_found_in_a_fused_condition():
    module = parse_module(FUSED_CONDITION)
    assert module.bound(module.entry.root) == 12


def test_a_loop_whose_end_depends_on_data_has_no_bound():
    text = FUSED_CONDITION.replace("constant(12)", "get-tuple-element(%c), index=0")
    module = parse_module(text)
    assert module.bound(module.entry.root) is None


def test_comparisons_of_what_is_not_carried_are_no_bound():
    # A remainder is mended where it is below 0; small numbers occur for many reasons.
    line = "  %limit = s32[] constant(12)\n"
    mended = "  %twice = s32[] add(%column, %column)\n"
    mended += "  %low = pred[] compare(%twice, %limit), direction=LT\n"
    text = FUSED_CONDITION.replace(line, line + mended)
    assert bounds(parse_module(text)) == [12]


def test_notes_over_several_lines_belong_to_their_instruction():
    noted = 'f(%x), custom_call_target="k", notes={\n"a": "b"\n}}, more=1'
    text = (
        "HloModule m\n\nENTRY %main (x: f32[2]) -> f32[2] {\n"
        "  %x = f32[2]{0} parameter(0)\n"
        f"  %y = f32[2]{{0}} {noted}\n"
        "  ROOT %z = f32[2]{0} add(%x, %y)\n}\n"
    )
    module = parse_module(text)
    assert [i.name for i in module.entry.instructions] == ["x", "y", "z"]
    assert module.entry.by_name["y"].attribute("more") == "1"


def test_computations_of_other_cores_end_too():
    text = FUSED_CONDITION.replace(
        "direction=LT\n}\n", 'direction=LT\n}, execution_thread="sparsecore"\n'
    )
    assert bounds(parse_module(text)) == [12]


def test_what_the_present_compiler_writes_is_read():
    def count(x_B: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 7, lambda i, y: jnp.sin(y) * i, x_B)

    compiled = jax.jit(count).lower(jnp.ones(8)).compile()
    module = parse_module(compiled.as_text() or "")
    assert bounds(module) == [7]


def test_a_text_without_a_program_is_refused():
    with pytest.raises(ValueError, match="no entry computation"):
        parse_module("HloModule m\n")
