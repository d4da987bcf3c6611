import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.clusters.errors import UsageError
from blocks.clusters.size import DEFAULT_SIZE, LARGEST_SIZE, format_size, parse_size


@given(st.integers(1, 10 * 2**20))
def test_what_is_formatted_is_read_back(mebibytes: int) -> None:
    size = mebibytes * 2**20
    text = format_size(size)
    if "." not in text:
        assert parse_size(text) == size


@given(st.integers(1, 10), st.sampled_from(["Mi", "Gi", "Ti"]))
def test_a_size_is_a_number_and_a_unit(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[unit]


def test_the_default_and_the_largest_size() -> None:
    assert parse_size(DEFAULT_SIZE) == 2**40
    assert parse_size(LARGEST_SIZE) == 10 * 2**40


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "0Gi",
        "-1Gi",
        "+1Gi",
        "1",
        "1TB",
        "1T",
        "1G",
        "1gi",
        "1 Gi",
        "1.5Ti",
        "01Gi",
        "1e3Gi",
        "Gi",
        "\uff11Gi",
        "1Gi\n1Gi",
    ],
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="500Gi"):
        parse_size(text)


@pytest.mark.parametrize("text", ["11Ti", "10241Gi", "999999999999999999999Ti"])
def test_a_size_over_the_largest_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="10Ti at most"):
        parse_size(text)


def test_sizes_read_well() -> None:
    assert [format_size(s) for s in (0, 312, 1024, 2**30 * 3 // 2, 2**40)] == ["0B", "312B", "1Ki", "1.5Gi", "1Ti"]
