"""YAML and JSON: what is refused says where."""

import pytest

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.yaml_config import dump_json, dump_yaml, parse_json, parse_yaml

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
    for a, b in zip("abcdef", "bcdefg", strict=True)
)


def test_numbers_and_text_are_read_as_they_are_meant() -> None:
    text = (
        "lr: 2e-5\nhalf: .5\nday: 2026-11-30\naddress: 192.168.0.1\nversion: 1.2.3\nempty:\nends: <|end|>\nmany: 1_000"
    )
    config = parse_yaml(text)
    assert config == {
        "lr": 2e-5, "half": 0.5, "day": "2026-11-30", "address": "192.168.0.1", "version": "1.2.3", "empty": None,
        "ends": "<|end|>", "many": 1000,
    }  # fmt: skip
    assert parse_yaml(dump_yaml(config)) == config
    assert parse_json(dump_json(config)) == config


def test_anchors_and_merges_are_resolved() -> None:
    assert parse_yaml("a: &x {b: 1}\nc: {<<: *x, d: 2}\n") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("just words", "no mapping"),
        ("- a\n- b", "no mapping"),
        ("a: 1\nb: [1", "line 2, column 6"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is there twice"),
        ("a:\tb", "line 1, column 3"),
        ("a: 1\n---\nb: 2", "line 2, column 1"),
        ("1: 2", "key that is no text"),
        ("a: {b: .nan}", "a.b is no finite number"),
        ("a: [1, !!binary aGk=]", "a.1 is a bytes"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: &a [*a]", "contains itself"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        (BOMB, "more than 100,000 values"),
    ],
)
def test_yaml_that_can_not_be_used_is_told(text: str, told: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_yaml(text)
    assert told in caught.value.what and caught.value.remedy


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" ", "is empty"),
        ("[1]", "no mapping"),
        ('{"a": 1,}', "line 1, column 9"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"a": NaN}', "no finite number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_can_not_be_used_is_told(text: str, told: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_json(text)
    assert told in caught.value.what and caught.value.remedy
