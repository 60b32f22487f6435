"""The house, checked: who may import whom, names that tell the truth, small files."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "jaxgrpo"
LONGEST_FILE = 450
LONGEST_FUNCTION = 80

# A module imports only modules above it. device/ and host/ have a list each and never
# see one another.

DEVICE_ORDER = """
device
device.cuts
device.records
device.placement
device.model
device.model.architecture
device.model.presets
device.model.rope
device.model.lora
device.model.forward_settings
device.model.remat
device.model.attention.rows
device.model.attention.xla
device.model.attention.chunked
device.model.attention.splash
device.model.attention.cudnn
device.model.attention.choice
device.model.attention
device.model.cache
device.model.decode_attention
device.model.layer
device.model.decoder
device.model.decode
device.mesh
device.sampling
device.sampling.constraint
device.head
device.divergence
device.objective
device.objective.choices
device.objective.advantages
device.objective.masks
device.objective.metrics
device.objective.credit
device.objective.redistribution
device.objective.pass_rates
device.objective.preferences
device.objective.ratios
device.objective.aggregation
device.objective.divergences
device.objective.presets
device.objective.correction
device.objective.experimental
device.objective.loss
device.sampling.keys
device.sampling.choose
device.sampling.slots
device.sampling.weights
device.sampling.prefill
device.sampling.segment
device.optimizer
device.supervised
device.reward_model
device.update_batch
device.batch_logprobs
device.update_metrics
device.token_advantages
device.intrinsic
device.influence
device.self_conditioning
device.update
"""

HOST_ORDER = """
host
host.trace_records
host.records
host.prompt_variants
host.user_message
host.prompts
host.decoding
host.child_environment
host.constraints.specification
host.constraints.stack_moves
host.constraints.byte_automaton
host.constraints.lexemes
host.constraints.python_literal
host.constraints.json_value
host.constraints.regular
host.constraints.regular_process
host.constraints.markers
host.constraints.closing
host.constraints.trie
host.constraints.token_walk
host.constraints.vocabulary
host.constraints.token_tables
host.constraints.table_cache
host.constraints.compilation
host.constraints
host.stop_strings
host.sandbox.levels
host.sandbox.protocol
host.sandbox.linux
host.sandbox.syscalls
host.sandbox.landlock
host.sandbox.seccomp
host.sandbox.confinement
host.sandbox.namespaces
host.sandbox.plain_data
host.stored_tests
host.sandbox.tracing
host.sandbox.tracing.canonical
host.sandbox.tracing.region
host.sandbox.tracing.statements
host.sandbox.tracing.recorder
host.sandbox.tracing.hooks
host.sandbox.tracing.tracer
host.sandbox.syntax_places
host.sandbox.candidate
host.sandbox.tester
host.sandbox.preparation
host.sandbox.watch
host.sandbox.serving
host.sandbox.zygote
host.sandbox.owner
host.sandbox.outcome
host.sandbox.traces
host.sandbox.calls
host.sandbox.examination
host.sandbox.packages
host.sandbox.sandbox
host.sandbox.probe
host.sandbox
host.trace.spans
host.trace.steps
host.trace.equality
host.trace.matching
host.trace.attributes
host.trace.rounds
host.trace.negation
host.trace.divergence
host.trace
host.judge.error_classes
host.judge.literal_values
host.judge.literal
host.judge.source_names
host.judge.passages
host.judge.fences
host.judge.marked
host.judge.extraction
host.judge.settings
host.judge.output
host.judge.results
host.judge.votes
host.judge.batches
host.judge.comparators.text
host.judge.comparators.values
host.judge.comparators.ladder
host.judge.comparators
host.judge.arguments
host.judge.checker
host.judge.stdin
host.judge.call
host.judge.operations
host.judge.conditions
host.judge.assert_cases
host.judge.rewriting
host.judge.assert_plans
host.judge.assertion
host.judge.programs
host.judge
host.json_rows
host.rewards.judged
host.rewards
host.rewards.schedule
host.rewards.gate
host.rewards.histogram
host.rewards.exact
host.rewards.similarity
host.rewards.tests
host.rewards.ladder
host.rewards.format
host.rewards.overlong
host.rewards.repetition
host.linting
host.rewards.ruff
host.rewards.steps
host.answers
host.rewards.empo
host.rewards.ttrl
host.rewards.self_certainty
host.rewards.entropy
host.rewards.learned
host.collapse_guard
host.plain_records
host.functions
host.functions.settings
host.rewards.function
host.functions.messages
host.functions.outcomes
host.functions.loading
host.functions.arguments
host.functions.calling
host.credit
host.credit.settings
host.credit.scopes
host.credit.constraints
host.credit.comparability
host.credit.localization
host.credit.tracing
host.credit.user_functions
host.credit.blame
host.credit.told_constraints
host.credit.group_blame
host.credit.blame_metrics
host.credit.steps
host.credit.step_metrics
host.hints.layout
host.hints.words
host.hints.planning
host.hints.knowledge
host.hints.solution
host.hints.literals
host.hints.own_trace
host.hints
host.regroup
host.regroup.liveness
host.regroup.stored
host.regroup.group_replay
host.regroup.repo
host.regroup.dynamic_sampling
host.regroup.scaffold
host.regroup.truncation_mask
host.diversity
host.harvest
host.training_tail
host.temperature
host.curriculum
host.quality
host.references
host.messages
host.channel
host.functions.child
host.functions.process
host.scoring
host.verdict_cache
host.worker_rewards
host.worker_process
host.worker
host.scorer
"""

JOINT_ORDER = """
.
process
compile_watch
problems
problems.formats.format
problems.formats
config_toml
config_tables
config_rewards
config_data
config_sampling
config_learning
config_methods
config_combinations
config_guard
config_credit
config_redistribution
config_experimental
config_scaffold
config_distill
config
config_fields
config_help
config_loading
update_shape
checkpoint
weights.names
weights.folder
weights.reading
weights.loading
weights.writing
weights.saving
weights.reward_model
weights.peft
weights.gguf
weights.gguf_tokenizer
weights
wandb_run
glossary
metrics_log
rollout_table
run_folder
report
report.style
report.curves
report.evaluation_table
report.evaluation_chart
report.comparison_table
console
reward_setup
scorer_setup
score_rewards
score
problems.pass_rates
problems.selection
problems.where
report.pass_rate_chart
problems.progress
problems.preparing
problems.dice
problems.lesson
problems.generation
problems.generated_builder
problems.converted
problems.generated_loading
problems.piece_tokenizer
problems.output_prediction
problems.output_prediction.grammar
problems.output_prediction.generator
problems.output_prediction.execution
problems.output_prediction.assembly
problems.output_prediction.driver
problems.output_prediction.worker
problems.output_prediction.notation
problems.output_prediction.tokenizer
problems.output_prediction.builder
problems.output_prediction.loading
problems.mini_programs
problems.mini_programs.grammar
problems.mini_programs.folds
problems.mini_programs.sketch
problems.mini_programs.code
problems.mini_programs.wording
problems.mini_programs.hints
problems.mini_programs.habits
problems.mini_programs.inputs
problems.mini_programs.writer
problems.mini_programs.generator
problems.mini_programs.driver
problems.mini_programs.execution
problems.mini_programs.worker
problems.mini_programs.problem
problems.mini_programs.targets
problems.mini_programs.tokenizer
problems.mini_programs.builder
problems.mini_programs.loading
problems.step_prediction
problems.step_prediction.anchors
problems.step_prediction.driver
problems.step_prediction.worker
problems.step_prediction.builder
problems.step_prediction.loading
problems.step_prediction.targets
problems.targets
convert
problems.formats.fields
problems.formats.files
problems.formats.wording
problems.formats.io_tests
problems.formats.cases
problems.formats.pickled_text
problems.formats.pytests
problems.formats.reference_values
problems.formats.humaneval
problems.formats.humaneval_plus
problems.formats.mbpp
problems.formats.mbpp_sanitized
problems.formats.mbpp_plus
problems.formats.livecodebench
problems.formats.apps
problems.formats.taco
problems.formats.codecontests
problems.formats.deepcoder
problems.formats.primeintellect
problems.formats.kodcode
problems.formats.codeio
problems.formats.file
problems.trace_prediction
problems.trace_prediction.questions
problems.trace_prediction.worker
problems.trace_prediction.builder
problems.trace_prediction.loading
problems.formats.cruxeval
problems.formats.cruxeval_input
problems.formats.cruxeval_trace
problems.formats.cruxeval_steps
problems.store
problems.store.caps
problems.store.splits
problems.store.settings
problems.store.sources
problems.store.counts
problems.store.records
problems.store.conversion
problems.store.builder
problems.store.reading
problems.datasets
data_command
data_command.settings
data_command.tables
data_command.listing
data_command.building
data_command.showing
data_command.checking
problems.stream
policy
engine
assembly
reach
training_problems
batching
sampling
imitation
doctor
step_metrics
evaluation
evaluation.estimates
evaluation.ranking
evaluation.outcomes
evaluation.slices
evaluation.comparison
evaluation.generations
evaluation.tail
preferences
preferences.pairs
preferences.batches
preferences.kept
preferences.harvest
reward_model
evaluate
held_out
credit_passes
learning
model_rewards
methods
drawing
calibration
distilling
conclusion
supervise
source
difficulty
export
sample
measure
train_reward
rank
stopwatch
memory_metrics
train
plan
plan.hardware
plan.devices
plan.hlo
plan.kernels
plan.collectives
plan.costs
plan.roofline
plan.estimate
plan.arrays
plan.programs
plan.compilation
plan.layouts
plan.planning
plan.advice
plan.report
plan.fit
plan.show
cli_errors
cli_score
cli_reward
cli_distill
cli_data
cli
"""

KNOW_BOTH_MACHINES = {
    "assembly",
    "batching",
    "calibration",
    "credit_passes",
    "model_rewards",
    "difficulty",
    "distilling",
    "drawing",
    "engine",
    "evaluate",
    "held_out",
    "imitation",
    "learning",
    "policy",
    "reward_model",
    "sample",
    "sampling",
    "supervise",
    "train",
}
"""The loop, its siblings, and what starts them."""

DEVICE_MAY_LOAD = {"jax", "numpy", "jaxtyping"}
DEVICE_EXTRAS = {
    "jaxgrpo.device.model": {"flax"},
    "jaxgrpo.device.optimizer": {"optax"},
    "jaxgrpo.device.supervised": {"optax"},
    "jaxgrpo.device.reward_model": {"optax"},
    "jaxgrpo.device.update": {"optax"},
}
HOST_MAY_LOAD = {"numpy"}
HOST_MAY_LOAD_LAZILY = {"outlines_core", "tokenizers", "transformers"}


def names_in(order: str) -> list[str]:
    return ["jaxgrpo" if name == "." else f"jaxgrpo.{name}" for name in order.split()]


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_files() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


FILES = module_files()
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
DEVICE = [name for name in FILES if name.startswith("jaxgrpo.device")]
HOST = [name for name in FILES if name.startswith("jaxgrpo.host")]


def imported(name: str, tree: ast.AST) -> set[str]:
    """Absolute names of all that a module imports anywhere, lazy imports included."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = absolute_source(name, node)
            for alias in node.names:
                below = f"{source}.{alias.name}"
                found.add(below if below in FILES else source)
    return found


def absolute_source(name: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    is_package = FILES[name].name == "__init__.py"
    parts = name.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, *filter(None, [node.module])])


def own_imports(name: str) -> set[str]:
    """Modules of the package that a module imports. Imports for types do not count."""
    tree = TREES[name]
    typing_only: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                typing_only |= imported(name, statement)
    return {
        other
        for other in imported(name, tree) - typing_only
        if other.split(".")[0] == "jaxgrpo"
    }


def foreign_imports(name: str, tree: ast.AST) -> set[str]:
    roots = {other.split(".")[0] for other in imported(name, tree)}
    return roots - set(sys.stdlib_module_names) - {"jaxgrpo", "__future__"}


# Order


@pytest.mark.parametrize(
    ("order", "modules"),
    [
        (DEVICE_ORDER, DEVICE),
        (HOST_ORDER, HOST),
        (JOINT_ORDER, [name for name in FILES if name not in {*DEVICE, *HOST}]),
    ],
    ids=["device", "host", "joint"],
)
def test_every_module_has_its_place_in_the_order(order: str, modules: list[str]):
    assert sorted(names_in(order)) == sorted(modules)


@pytest.mark.parametrize("name", sorted(FILES))
def test_module_imports_only_earlier_ones(name: str):
    order = [*names_in(DEVICE_ORDER), *names_in(HOST_ORDER), *names_in(JOINT_ORDER)]
    earlier = set(order[: order.index(name)])
    assert own_imports(name) <= earlier


def test_the_two_machines_never_see_one_another():
    for name in DEVICE:
        assert own_imports(name) <= set(DEVICE), name
    for name in HOST:
        assert own_imports(name) <= set(HOST), name


def test_only_the_loop_and_its_siblings_know_both_machines():
    know_both = {
        name
        for name in FILES
        if own_imports(name) & set(DEVICE) and own_imports(name) & set(HOST)
    }
    assert know_both == {f"jaxgrpo.{name}" for name in KNOW_BOTH_MACHINES}


# What may be loaded


@pytest.mark.parametrize("name", DEVICE)
def test_device_imports_no_foreign_library(name: str):
    allowed = set(DEVICE_MAY_LOAD)
    for place, extras in DEVICE_EXTRAS.items():
        if f"{name}.".startswith(f"{place}."):
            allowed |= extras
    assert foreign_imports(name, TREES[name]) <= allowed


@pytest.mark.parametrize("name", HOST)
def test_host_imports_no_foreign_library(name: str):
    top_level = [
        node
        for node in TREES[name].body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    at_once = set().union(*(foreign_imports(name, node) for node in top_level))
    assert at_once <= HOST_MAY_LOAD
    assert foreign_imports(name, TREES[name]) <= HOST_MAY_LOAD | HOST_MAY_LOAD_LAZILY


def loaded_by(code: str) -> set[str]:
    """Top-level packages in a fresh process after some code has run."""
    show = "import sys; print(' '.join({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_host_never_loads_jax():
    loaded = loaded_by("\n".join(f"import {name}" for name in HOST))
    assert not loaded & {"jax", "jaxlib", "flax", "grain", "pydantic", "transformers"}


def test_package_loads_nothing():
    new = loaded_by("import jaxgrpo") - loaded_by("") - set(sys.stdlib_module_names)
    assert new == {"jaxgrpo"}


def test_public_functions_load_jax_numpy_and_jaxtyping_only():
    libraries = loaded_by("import jax, jax.numpy, numpy, jaxtyping")
    public = "from jaxgrpo import grpo_loss, group_advantages, token_logprobs"
    new = loaded_by(public) - libraries - set(sys.stdlib_module_names)
    assert new == {"jaxgrpo"}


def test_shapes_are_checked_when_tests_run():
    import jax.numpy as jnp
    from jaxtyping import TypeCheckError

    from jaxgrpo import group_advantages

    with pytest.raises(TypeCheckError, match="rewards_BR"):
        group_advantages(jnp.zeros(3), jnp.zeros(3, int))


# Names


DTYPES = {"Float", "Int", "UInt", "Integer", "Bool", "Key", "Num", "Shaped", "Inexact"}
SUFFIX = re.compile(r"_([A-Z][A-Za-z0-9]*|[0-9]+[A-Z][A-Za-z0-9]*)$")


def shape_of(annotation: ast.expr | None) -> list[str] | None:
    """Dims of an array's annotation, also `array | None`; None for what is no array."""
    if isinstance(annotation, ast.BinOp):
        return shape_of(annotation.left) or shape_of(annotation.right)
    if not isinstance(annotation, ast.Subscript):
        return None
    if ast.unparse(annotation.value) not in DTYPES:
        return None
    assert isinstance(annotation.slice, ast.Tuple)
    return ast.literal_eval(annotation.slice.elts[-1]).split()


def agrees(variable: str, dims: list[str]) -> bool:
    """Whether a name ends in its dims; of `*any D`, it must end in D if in anything."""
    found = SUFFIX.search(variable)
    suffix = found.group(1) if found else ""
    if not any(dim.startswith("*") for dim in dims):
        return suffix == "".join(dims)
    fixed = "".join(dim for dim in dims if not dim.startswith("*"))
    return not suffix or suffix.endswith(fixed)


def named_annotations(tree: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.annotation


@pytest.mark.parametrize("name", DEVICE)
def test_names_of_arrays_agree_with_their_annotations(name: str):
    for variable, annotation in named_annotations(TREES[name]):
        dims = shape_of(annotation)
        assert dims is None or agrees(variable, dims), variable


@pytest.mark.parametrize(
    ("argument", "is_true"),
    [
        ('logprobs_BT: Float[Array, "B T"]', True),
        ('lengths_B: Int[Array, " B"] | None', True),
        ('step: Int[Array, ""]', True),
        ('logprobs_BT: Float[Array, "T B"]', False),
        ('logprobs: Float[Array, "B T"]', False),
        ('step_B: Int[Array, ""]', False),
        ('x: Float[Array, "*any D"]', True),
        ('hidden_BTF: Float[Array, "*any D"]', False),
    ],
)
def test_lying_name_is_caught(argument: str, is_true: bool):
    tree = ast.parse(f"def f({argument}): pass")
    ((variable, annotation),) = named_annotations(tree)
    dims = shape_of(annotation)
    assert dims is not None
    assert agrees(variable, dims) == is_true


def test_no_module_is_a_drawer_for_everything():
    assert not {p.stem for p in FILES.values()} & {"utils", "common", "base", "helpers"}


# Sizes


@pytest.mark.parametrize("name", sorted(FILES))
def test_file_is_short(name: str):
    assert len(FILES[name].read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("name", sorted(FILES))
def test_functions_are_short(name: str):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert code_lines(node) <= LONGEST_FUNCTION, node.name


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first, last = function.lineno, function.end_lineno or function.lineno
    lines = last - first + 1
    statement = function.body[0]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        lines -= (statement.end_lineno or 0) - statement.lineno + 1
    return lines


def test_nothing_names_the_machine_it_was_written_on():
    folders = ["jaxgrpo", "tests", "configs", "docs", "benchmarks"]
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]
    kinds = {".py", ".toml", ".md", ".json", ".jinja"}
    for path in [*files, *REPOSITORY.glob("*.*")]:
        if path.is_file() and path.suffix in kinds:
            assert str(REPOSITORY) not in path.read_text(), path
