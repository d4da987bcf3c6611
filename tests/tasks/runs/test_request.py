"""A run's identity: the same request hashes alike, another one differs, and the difference can be told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.clusters.names import check_name
from blocks.trainer_settings import TrainerSettings
from tasks.pod.errors import BadInputError
from tasks.runs.ask import ask_run
from tasks.runs.request import RUN_ID_LONGEST, ForkOf, RunRequest, differences, run_id

ROOT = "01a22be2-4975-72cb-9078-21fd92a407de"


def request(**changes: object) -> RunRequest:
    return RunRequest.model_validate(
        {"run": "r", "volume": "v", "trainer": TrainerSettings(kind="tiny"), "config": {"a": {"b": 1}}, **changes}
    )


def test_the_hash_covers_what_was_asked_for_and_nothing_else() -> None:
    base = request().request_hash()
    assert request(run="other", volume="w", volume_size=1).request_hash() == base
    assert request(config={"a": {"b": 2}}).request_hash() != base
    assert request(trainer=TrainerSettings(kind="tiny", image="x")).request_hash() != base
    assert request(fork_of=ForkOf(run="p")).request_hash() != base


def test_a_difference_is_told_by_dotted_key() -> None:
    old, new = request().asked(), request(config={"a": {"b": 2, "c": "x"}}).asked()
    assert differences(old, new) == ["config.a.b: 1 → 2", 'config.a.c: not set → "x"']
    assert differences(old, old) == []


def test_values_that_only_python_calls_equal_are_three_requests_and_told_apart() -> None:
    one, true, fraction = (request(config={"a": {"b": [value]}}) for value in (1, True, 1.0))
    assert len({r.request_hash() for r in (one, true, fraction)}) == 3
    assert differences(one.asked(), true.asked()) == ["config.a.b: [1] → [true]"]
    assert differences(one.asked(), fraction.asked()) == ["config.a.b: [1] → [1.0]"]


def test_a_run_without_a_name_has_the_same_id_on_every_retry() -> None:
    assert run_id(None, "finetune", ROOT) == run_id(None, "finetune", ROOT) == "finetune-fd92a407de"
    assert run_id("mine", "finetune", ROOT) == "mine"
    assert run_id(None, "fork", ROOT) != run_id(None, "finetune", ROOT)


@given(st.uuids(), st.text(min_size=1, max_size=200))
def test_made_ids_are_labels(root: object, place: str) -> None:
    made = run_id(None, place, str(root))
    assert len(made) <= RUN_ID_LONGEST
    check_name("run", made)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a.b = inf", r"a\.b is no finite number"),
        ("a.b = [1, nan]", r"a\.b\.1 is no finite number"),
        ("a.b = 1979-05-27", r"a\.b is a date\. Put it in quotes"),
        ("a.b = 07:32:00", r"a\.b is a time\. Put it in quotes"),
    ],
)
def test_what_a_record_can_not_keep_is_refused_and_not_passed_on_as_something_else(line: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        ask_run("r", line, TrainerSettings(kind="tiny"), volume="v")
    with pytest.raises(BadInputError, match="finite"):
        ask_run("r", "a.b = 1", TrainerSettings(kind="tiny"), volume="v", changes={"a.b": float("nan")})


def test_a_change_that_is_nested_too_deeply_is_refused() -> None:
    deep: object = 1
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(BadInputError, match="nested too deeply"):
        ask_run("r", "[model]\nname = 'a/b'", TrainerSettings(kind="tiny"), changes={"x": deep}, volume="v")
