"""Errors that say where, and keys by their dotted names."""

import pytest

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.toml_config import parse, parse_assignment, set_keys


def test_text_and_bytes_with_or_without_a_byte_order_mark():
    assert parse("a = 1") == parse(b"a = 1") == parse(b"\xef\xbb\xbfa = 1") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "x.toml is empty."),
        ("# nothing\n\n", "x.toml is empty."),
        ("a = 1\nb = \n", "x.toml is not valid TOML: line 2, column 5: Invalid value."),
        ("a = 1\n[b\n", "x.toml is not valid TOML: line 2, column 3:"),
        ("a = 1\nlr", "x.toml is not valid TOML: line 2, column 3:"),
        ("a = 1\na = 2", "x.toml is not valid TOML: line 2, column 6: Cannot overwrite a value."),
        (b"a = 1\nb = '\xff'", "x.toml is not UTF-8: line 2, column 6: byte 0xff."),
        ("a = " + "[" * 100_000, "x.toml is not usable TOML: values are nested too deeply."),
        ("[a" + ".a" * 3000 + "]", "x.toml is not usable TOML: values are nested too deeply."),
        ("a = " + "1" * 5_000, "x.toml is not usable TOML: Exceeds the limit"),
    ],
)
def test_bad_text_is_told_with_line_and_column(text, told):
    with pytest.raises(BadInputError) as caught:
        parse(text, "x.toml")
    assert caught.value.what.startswith(told)
    assert caught.value.remedy


def test_setting_keys_makes_a_new_config():
    config = {"optim": {"lr": 1}, "env": [{"id": "a"}, {"id": "b"}]}
    changed = set_keys(config, {"optim.lr": 0.01, "ckpt.interval": 5, "env.1.id": "c", 'x."y.z"': [1]})
    assert changed == {
        "optim": {"lr": 0.01},
        "env": [{"id": "a"}, {"id": "c"}],
        "ckpt": {"interval": 5},
        "x": {"y.z": [1]},
    }
    assert config == {"optim": {"lr": 1}, "env": [{"id": "a"}, {"id": "b"}]}


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a b", "a = 1 #", "a\nb", "[a]", "lr.x", "env.2.id", "env.id"])
def test_keys_that_can_not_be_set(key):
    with pytest.raises(BadInputError):
        set_keys({"lr": 1, "env": [{}, {}]}, {key: 1})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("optim.lr=0.01", "optim.lr", 0.01),
        ("optim.lr = 1e-3", "optim.lr", 1e-3),
        ("max_steps=90", "max_steps", 90),
        ("a=true", "a", True),
        ("a=[1, 2]", "a", [1, 2]),
        ('a={"b": 1}', "a", {"b": 1}),
        ("a={b = 1}", "a", {"b": 1}),
        ('a="1"', "a", "1"),
        ("model.name=org/name@main", "model.name", "org/name@main"),
        ("a=x=y", "a", "x=y"),
        ("a=", "a", ""),
        ("a=NaN", "a", "NaN"),
        ('"x.y".b=1', '"x.y".b', 1),
    ],
)
def test_assignments(text, key, value):
    assert parse_assignment(text) == (key, value)
    assert set_keys({}, dict([parse_assignment(text)]))


@pytest.mark.parametrize("text", ["optim.lr", "=1", "a b=1", "a=null"])
def test_bad_assignments(text):
    with pytest.raises(BadInputError):
        parse_assignment(text)
