import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.clusters.errors import UsageError
from blocks.clusters.names import LONGEST, check_name, fit_name

parts = st.lists(st.text(max_size=80), min_size=1, max_size=4)
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(parts, st.integers(10, LONGEST))
def test_a_fitted_name_is_a_label_that_fits(pieces: list[str], longest: int) -> None:
    name = fit_name(*pieces, longest=longest)
    assert len(name) <= longest
    assert check_name("job", name) == name


@given(parts, parts)
def test_different_parts_give_different_names(one: list[str], other: list[str]) -> None:
    if "-".join(one) != "-".join(other):
        assert fit_name(*one) != fit_name(*other)


@given(parts)
def test_the_same_parts_give_the_same_name(pieces: list[str]) -> None:
    assert fit_name(*pieces) == fit_name(*pieces)


@given(labels)
def test_a_label_is_left_as_it_is(name: str) -> None:
    assert fit_name(name) == name == check_name("volume", name)


def test_a_name_is_stable_from_one_version_to_the_next() -> None:
    assert fit_name("run", "Qwen/Qwen3-0.6B") == "run-qwen-qwen3-0-6b-56e25765"


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a b", "a/b", "..", "a\n", "a" * 64])
def test_a_bad_name_is_refused_with_its_rule(name: str) -> None:
    with pytest.raises(UsageError, match="lower-case letters, digits and hyphens"):
        check_name("volume", name)
