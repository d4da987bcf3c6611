"""What flows take from Python beside what a form sends."""

import pytest
from pydantic import TypeAdapter, ValidationError

from flows.parameters import Step, step_of


def test_a_step_is_a_number_or_text() -> None:
    take = TypeAdapter(Step)
    assert [step_of(take.validate_python(step)) for step in (60, "60", "latest")] == [60, 60, "latest"]
    for wrong in (0, -1, True, 1.5, "last", ""):
        with pytest.raises(ValidationError):
            take.validate_python(wrong)
    assert take.json_schema() == {"type": "string", "pattern": "^(latest|[1-9][0-9]*)$"}
