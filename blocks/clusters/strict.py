"""Models that take a value for what it is: `true` is no 1, "3" no 3, 2.5 no 2, and 1 no `true`."""

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

_TAKEN_AS_THEY_ARE = ("bool", "int", "float")


class Strict:
    """To be inherited from before a pydantic model. Pydantic's own `strict` would refuse lists for tuples, texts for
    paths and dates too, which is how JSON and TOML write them. A whole number is still a number."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _make_strict(schema)
        return schema


def _make_strict(part: Any) -> None:
    if isinstance(part, list | tuple):
        for item in part:
            _make_strict(item)
    elif isinstance(part, dict):
        if part.get("type") in _TAKEN_AS_THEY_ARE:
            part["strict"] = True
        for key, item in part.items():
            if key not in ("metadata", "default", "serialization"):
                _make_strict(item)
