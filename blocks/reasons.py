"""What pydantic finds wrong with a value, in the words of this project."""

import reprlib
from typing import Any

from pydantic_core import ErrorDetails

_WORDS = {
    "missing": "is missing",
    "model_type": "has to be a table",
    "model_attributes_type": "has to be a table",
    "dict_type": "has to be a table",
    "tuple_type": "has to be a list",
    "list_type": "has to be a list",
    "string_type": "has to be text",
    "bool_type": "has to be true or false",
    "bool_parsing": "has to be true or false",
    "int_type": "has to be a whole number",
    "int_parsing": "has to be a whole number",
    "int_from_float": "has to be a whole number",
    "float_type": "has to be a number",
    "float_parsing": "has to be a number",
    "finite_number": "has to be a finite number",
    "greater_than": "has to be above {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than": "has to be below {lt}",
    "less_than_equal": "has to be at most {le}",
    "literal_error": "has to be {expected}",
    "string_too_short": "is empty",
    "too_short": "has {actual_length} items, and has to have {min_length}",
    "too_long": "has {actual_length} items, and may have {max_length}",
}
_TELL_THEMSELVES = ("missing", "string_too_short", "too_short", "too_long")


def reason(found: ErrorDetails) -> str:
    """What has to follow the key's name: `has to be a whole number, is 1.5`."""
    words = _WORDS.get(found["type"])
    if words is None:
        return found["msg"].removeprefix("Value error, ")
    context: dict[str, Any] = found.get("ctx", {})
    said = words.format(**{k: f"{v:,}" if isinstance(v, int | float) else v for k, v in context.items()})
    return said if found["type"] in _TELL_THEMSELVES else f"{said}, is {reprlib.repr(found['input'])}"
