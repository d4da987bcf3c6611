"""Trainers by kind."""

import pytest

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.table import ADAPTERS, adapter


def test_every_adapter_goes_by_its_own_kind():
    assert all(adapter(kind).kind == kind for kind in ADAPTERS)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("tinny", "Did you mean 'tiny'?"), ("llamafactory", "Did you mean 'llama-factory'?"), ("nano", "Known: ")],
)
def test_an_unknown_kind_is_told_with_the_nearest(kind, remedy):
    with pytest.raises(BadInputError) as caught:
        adapter(kind)
    assert remedy in caught.value.remedy
