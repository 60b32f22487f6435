"""FLOPs, bytes and collectives of compiled programs, against figures by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxgrpo.plan.collectives import Collective
from jaxgrpo.plan.costs import Costs, program_costs
from jaxgrpo.plan.hardware import TPUS
from jaxgrpo.plan.hlo import Shape, parse_module
from jaxgrpo.plan.kernels import kernel_flops
from jaxgrpo.plan.roofline import times

MIB = 2**20


def costs_of(function, *arguments) -> Costs:
    compiled = jax.jit(function).lower(*arguments).compile()
    return program_costs(parse_module(compiled.as_text() or ""))


def test_products_of_a_tpu_program(tpu_update):
    # Rows of a device, forward, again in the backward pass, and for both operands.
    costs = program_costs(tpu_update)
    assert costs.flops == 6 * 4 * (2 * 64 * 1024 * 1024)


def test_collectives_of_a_tpu_program(tpu_update):
    # Each layer's weights are gathered for both passes; a reduction of which every
    # device keeps its slice is a scatter. All of 1024 x 1024 in bfloat16.
    costs = program_costs(tpu_update)
    by_kind: dict[str, float] = {}
    for collective, count in costs.collectives.items():
        assert collective.num_bytes == 2 * MIB
        assert collective.group_size == 4
        by_kind[collective.kind] = by_kind.get(collective.kind, 0) + count
    assert by_kind == {"all-gather": 12, "reduce-scatter": 6}
    assert costs.received_bytes == 18 * 2 * MIB * 3 / 4


def test_a_loop_that_may_end_early_counts_to_its_bound(tpu_decode):
    assert program_costs(tpu_decode).flops == 64 * 6 * (2 * 16 * 512 * 512)


def test_weights_are_read_in_every_turn_of_a_loop(tpu_decode):
    # A fusion reads one layer of the stack; activations stay in scratch memory.
    weights = 64 * 6 * 512 * 512 * 2
    assert weights <= program_costs(tpu_decode).memory_bytes < 1.1 * weights


def test_the_present_compiler_counts_a_plain_program_alike():
    def plain(x_BD, w_DF):
        return jnp.tanh(x_BD @ w_DF).sum(axis=0)

    x_BD, w_DF = jnp.ones((32, 64)), jnp.ones((64, 48))
    costs = costs_of(plain, x_BD, w_DF)
    assert costs.flops == 2 * 32 * 64 * 48
    stated = jax.jit(plain).lower(x_BD, w_DF).compile().cost_analysis()
    assert stated is not None
    # XLA's figure has elementwise work too.
    assert costs.flops <= stated["flops"] < 1.1 * costs.flops


def test_a_scan_counts_its_body_as_often_as_it_turns():
    def scanned(x_BD, w_LDD):
        return jax.lax.scan(lambda x, w: (jnp.sin(x @ w), None), x_BD, w_LDD)[0]

    costs = costs_of(scanned, jnp.ones((8, 16)), jnp.ones((5, 16, 16)))
    assert costs.flops == 5 * 2 * 8 * 16 * 16


def test_a_loop_without_a_bound_turns_as_often_as_it_is_told():
    def summed(x_TD, w_DD, length):
        def visit(i, y_D):
            return y_D + jnp.sin(x_TD[i] @ w_DD)

        return jax.lax.fori_loop(0, length, visit, jnp.zeros(16))

    arguments = jnp.ones((100, 16)), jnp.ones((16, 16)), jnp.int32(3)
    compiled = jax.jit(summed).lower(*arguments).compile()
    module = parse_module(compiled.as_text() or "")
    once = 2 * 16 * 16
    assert program_costs(module).flops == once
    assert program_costs(module, {(100, 16): 40.5}).flops == 40.5 * once
    assert program_costs(module, {(7, 16): 40.5}).flops == once


def test_a_written_slice_counts_and_not_the_array():
    def filled(cache_TD, row_D):
        def write(i, cache_TD):
            return jax.lax.dynamic_update_slice(cache_TD, row_D[None], (i, 0))

        return jax.lax.fori_loop(0, 100, write, cache_TD)

    cache_TD = jnp.zeros((1000, 512))
    costs = costs_of(filled, cache_TD, jnp.ones(512))
    # At most: the cache copied in and out, and 100 rows read and written.
    assert costs.memory_bytes <= 4 * cache_TD.nbytes + 100 * 4 * 512 * 4


@pytest.fixture(scope="module")
def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)


@pytest.mark.parametrize(
    ("collect", "kind", "elements", "passes"),
    [
        (partial(jax.lax.psum, axis_name="a"), "all-reduce", 512, 2),
        (partial(jax.lax.all_gather, axis_name="a"), "all-gather", 4 * 512, 1),
        (
            partial(jax.lax.psum_scatter, axis_name="a", tiled=True),
            "reduce-scatter",
            512,
            1,
        ),
    ],
    ids=["sum", "gather", "scatter"],
)
def test_collectives_on_fake_devices(mesh, collect, kind, elements, passes):
    def part(x_X):
        return jnp.sin(collect(x_X))

    function = jax.shard_map(
        part,
        mesh=mesh,
        in_specs=PartitionSpec(("a", "b")),
        out_specs=PartitionSpec("b"),
        check_vma=False,
    )
    where = NamedSharding(mesh, PartitionSpec(("a", "b")))
    x_X = jax.ShapeDtypeStruct((8 * 512,), jnp.float32, sharding=where)
    ((collective, count),) = costs_of(function, x_X).collectives.items()
    assert (collective.kind, count) == (kind, 1.0)
    assert collective.group_size == 4
    assert collective.num_bytes == elements * 4
    assert collective.received_bytes == passes * elements * 4 * 3 / 4


ASYNCHRONOUS = """HloModule m

%start (p: f32[4]) -> f32[8] {
  %p = f32[4]{0} parameter(0)
  ROOT %g = f32[8]{0} all-gather(%p), channel_id=3, replica_groups={{0,1}}
}

%wait (q: f32[4]) -> f32[8] {
  %q = f32[4]{0} parameter(0)
  ROOT %h = f32[8]{0} all-gather(%q), channel_id=3, replica_groups={{0,1}}
}

%goes_on (c: (s32[], f32[4])) -> pred[] {
  %c = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(5)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

%body (b: (s32[], f32[4])) -> (s32[], f32[4]) {
  %b = (s32[], f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%b), index=1
  %step = f32[8]{0} fusion(%x), kind=kCustom, calls=%wait
  ROOT %t = (s32[], f32[4]{0}) tuple(%b, %x)
}

ENTRY %main (a: f32[4], z: s32[]) -> (s32[], f32[4]) {
  %a = f32[4]{0} parameter(0)
  %z = s32[] parameter(1)
  %begun = f32[8]{0} fusion(%a), kind=kCustom, calls=%start
  %init = (s32[], f32[4]{0}) tuple(%z, %a)
  %loop = (s32[], f32[4]{0}) while(%init), condition=%goes_on, body=%body
  %ended = f32[8]{0} fusion(%a), kind=kCustom, calls=%wait
  ROOT %r = (s32[], f32[4]{0}) tuple(%loop)
}
"""


def test_a_transfer_during_other_work_is_one():
    # It is named where it begins, in a loop that runs meanwhile, and where it ends.
    costs = program_costs(parse_module(ASYNCHRONOUS))
    assert costs.collectives == {Collective("all-gather", "f32[8]", 32, 2): 1.0}


def test_a_permutation_sends_everything_once():
    permutation = Collective("collective-permute", "f32[8]", 32, 1)
    assert (permutation.received_bytes, permutation.hops) == (32, 1)


def test_a_ring_goes_round_once_and_a_sum_twice():
    assert Collective("all-gather", "f32[8]", 32, 4).hops == 3
    assert Collective("all-reduce", "f32[8]", 32, 4).hops == 6


def test_small_exchanges_take_their_hops():
    tiny = Costs(collectives={Collective("all-reduce", "f32[1]", 4, 4): 1000.0})
    found = times(tiny, TPUS["v5e"])
    assert found is not None
    assert found.network_s == pytest.approx(6000 * TPUS["v5e"].hop_s, rel=1e-3)
    assert found.bound == "network"


@pytest.mark.parametrize(("kernel", "products"), [("fwd", 2), ("dq", 3), ("dkv", 4)])
def test_splash_counts_what_queries_see(kernel, products):
    # 3 rows of 2 key heads with 4 query heads each; the last 6 of 10 positions ask.
    operands = (
        Shape("s8", (1, 1, 1), True),
        Shape("bf16", (3, 2, 4, 6, 128), True),
        Shape("bf16", (3, 2, 10, 128), True),
        Shape("bf16", (3, 2, 10, 128), True),
    )
    pairs = sum(range(5, 11))
    assert kernel_flops(f"splash_mqa_{kernel}_segmented.1", operands) == (
        2 * products * 3 * 2 * 4 * 128 * pairs
    )


def test_other_kernels_count_nothing():
    assert kernel_flops("topk.3", (Shape("f32", (8, 8), True),)) == 0.0
