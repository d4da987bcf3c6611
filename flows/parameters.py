"""The types of flow parameters: what the Run form of the UI offers and refuses. It explains them with the docstrings.

What may be left out is shown as a plain field that may be left empty: for `str | None` both of Prefect's UIs show tabs
called "str" and "None", and for `dict | None` the new one shows nothing at all. A form that is left as it is sends the
defaults, so these are "" and {}, not None; from Python None is as good. A field that is emptied is not sent at all:
then the deployment's own value counts.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from tasks.choices import OFFERS

_NAME = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SIZE = "([1-9][0-9]*(Mi|Gi)|([1-9]|10)Ti)"


def _or_empty(pattern: str, longest: int) -> Any:
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})?$", "maxLength": longest})


Volume = Annotated[str, Field(pattern=f"^{_NAME}$", max_length=63)]
Size = Annotated[str, Field(pattern=f"^{_SIZE}$")]
Run = Annotated[str, Field(pattern=f"^{_NAME}$", max_length=48)]
Model = Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?(@[\w./-]+)?$")]
_MODEL = r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?|/volume/.+"
ModelOrConfigs = Annotated[
    str | None,
    Field(pattern=f"^({_MODEL})?$"),
    WithJsonSchema({"type": "string", "pattern": f"^({_MODEL})?$", **OFFERS}),
]


def _as_text(step: object) -> object:
    """A step is a number to whoever calls the flow from Python."""
    return str(step) if isinstance(step, int) and not isinstance(step, bool) else step


Step = Annotated[str, Field(pattern=r"^(latest|[1-9][0-9]*)$"), BeforeValidator(_as_text)]
Hold = Literal["link", "copy"]
Config = Annotated[str, Field(min_length=1)]

VolumeOrConfigs = Annotated[str | None, Field(pattern=f"^({_NAME})?$", max_length=63), _or_empty(_NAME, 63)]
SizeOrDefault = Annotated[str | None, Field(pattern=f"^{_SIZE}?$"), _or_empty(_SIZE, 20)]
AnyRun = Annotated[str | None, Field(pattern=f"^({_NAME})?$", max_length=48), _or_empty(_NAME, 48)]
Count = Annotated[int, Field(ge=0, strict=True)]
RunOrMade = Annotated[str | None, Field(pattern=f"^({_NAME})?$", max_length=48), _or_empty(_NAME, 48)]
SweepOrMade = Annotated[str | None, Field(pattern=f"^({_NAME})?$", max_length=36), _or_empty(_NAME, 36)]
Changes = Annotated[dict[str, Any] | None, WithJsonSchema({"type": "object"})]
NO_CHANGES: dict[str, Any] = {}
Trust = list[str]
Patterns = list[str]
NOTHING: list[str] = []


def step_of(text: str) -> int | Literal["latest"]:
    return "latest" if text == "latest" else int(text)
