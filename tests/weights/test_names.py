"""Parameters and the tensors that hold them."""

import jax
import numpy as np
import pytest

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.weights.names import decoder_entries
from tests.weights.tiny import ARCHITECTURES, UNTIED


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_every_parameter_has_an_entry_of_its_shape(architecture: Architecture):
    shapes = jax.eval_shape(lambda: initial_params(architecture, jax.random.key(0)))
    paths, _ = jax.tree_util.tree_flatten_with_path(shapes)
    expected = {tuple(key.key for key in path): leaf.shape for path, leaf in paths}
    entries = decoder_entries(architecture)
    assert {entry.path: entry.shape for entry in entries} == expected
    assert len(entries) == len(expected)


def test_a_matrix_is_stored_outputs_by_inputs():
    a = UNTIED
    ours = np.arange(a.width * a.num_heads * a.head_width).reshape(
        a.width, a.num_heads, a.head_width
    )
    (entry,) = (e for e in decoder_entries(a) if e.path[-1] == "q_DNH")
    stored = entry.as_stored(ours)
    assert stored.shape == entry.stored_shape == (64, 32)
    # Output n * H + h of input d.
    assert stored[2 * 16 + 5, 7] == ours[7, 2, 5]


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_there_and_back_is_the_same(architecture: Architecture):
    for entry in decoder_entries(architecture):
        ours = np.random.default_rng(0).standard_normal(entry.sizes)
        back = np.empty_like(ours)
        entry.copy_to_ours(entry.as_stored(ours), back)
        np.testing.assert_array_equal(back, ours)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_a_cut_of_any_leading_dim_is_one_block(architecture: Architecture):
    """As every cut is that the mesh makes: along D, N, K, F or V, never along H."""
    for entry in decoder_entries(architecture):
        ours = np.random.default_rng(0).standard_normal(entry.sizes)
        stored = entry.as_stored(ours)
        for axis, (dim, size) in enumerate(zip(entry.dims, entry.sizes, strict=True)):
            if dim == "H":
                continue
            part = [slice(0, size) for size in entry.sizes]
            part[axis] = slice(size // 2, size)
            expected = ours[tuple(part)]
            found = np.empty_like(expected)
            entry.copy_to_ours(stored[entry.stored_slices(tuple(part))], found)
            np.testing.assert_array_equal(found, expected)


def test_large_matrices_are_transposed_in_blocks_without_a_gap():
    wide = UNTIED._replace(mlp_width=200)
    (entry,) = (e for e in decoder_entries(wide) if e.path[-1] == "down_FD")
    ours = np.random.default_rng(0).standard_normal(entry.sizes, np.float32)
    np.testing.assert_array_equal(entry.as_stored(ours), ours.T)
