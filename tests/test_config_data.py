import pytest
from pydantic import ValidationError

from jaxgrpo.config_data import GENERATED, DataConfig, known_datasets
from jaxgrpo.problems.datasets import settings_of
from jaxgrpo.problems.formats import FORMATS


def refusal(**fields: object) -> str:
    with pytest.raises(ValidationError) as caught:
        DataConfig.model_validate(fields)
    (error,) = caught.value.errors()
    return error["msg"].removeprefix("Value error, ")


def test_every_format_and_generator_is_known_once():
    assert sorted(known_datasets()) == sorted([*GENERATED, *FORMATS])
    assert len(set(known_datasets())) == len(known_datasets())


@pytest.mark.parametrize("name", known_datasets())
def test_every_known_name_is_taken(name):
    path = "x.jsonl" if name == "file" else ""
    assert DataConfig(dataset=name, path=path).dataset == name


def test_an_unknown_name_gets_the_nearest():
    assert refusal(dataset="mbbp").startswith(
        "data.dataset is 'mbbp', which is no data set. Did you mean 'mbpp'? There are: "
        "output_prediction, "
    )


@pytest.mark.parametrize("name", GENERATED)
def test_a_run_records_how_many_problems_are_made(name):
    data = DataConfig(dataset=name, num_train=7)
    assert (data.num_train, data.num_test) == (7, GENERATED[name]["test"])
    assert DataConfig(**data.model_dump()) == data


def test_of_a_published_set_all_problems_are_taken():
    data = DataConfig(dataset="mbpp", num_test=3)
    assert [data.limit_of(name) for name in ("train", "validation", "test")] == [
        *(0, 0, 3)
    ]


@pytest.mark.parametrize(
    "field",
    [
        {"path": "x"},
        {"columns": {"prompt": "x"}},
        {"splits": "hashed"},
        {"test_fraction": 0.2},
        {"malformed": "skip"},
        {"max_tests": 1},
        {"include_inexpressible": True},
        {"per_row": 2},
    ],
)
def test_what_a_generator_does_not_read_is_refused(field):
    (name,) = field
    message = refusal(**field)
    assert message.startswith(f"data.{name} ") and "'output_prediction'" in message


def test_what_a_published_set_does_not_read_is_refused():
    assert "data.build_workers 2 has no effect" in refusal(
        dataset="mbpp", build_workers=2
    )
    assert "data.columns {" in refusal(dataset="mbpp", columns={"prompt": "text"})
    assert "data.seed 1 has no effect" in refusal(dataset="mbpp", seed=1)
    assert "data.per_row 2 has no effect" in refusal(dataset="mbpp", per_row=2)


def test_where_answers_are_drawn_seed_and_number_count():
    data = DataConfig(dataset="cruxeval_trace", seed=1, per_row=2)
    assert (settings_of(data).seed, settings_of(data).per_row) == (1, 2)


def test_a_file_needs_a_path_and_known_fields():
    assert "Set data.path to the file" in refusal(dataset="file")
    message = refusal(dataset="file", path="x", columns={"promt": "q"})
    assert message.startswith("data.columns.promt: a problem has no such field. Did ")
    assert "data.columns.prompt?" in message


def test_something_is_left_to_train_on():
    assert "leave nothing to train on" in refusal(
        dataset="mbpp", test_fraction=0.5, validation_fraction=0.5
    )
