"""The types of flow parameters: what the Run form of the UI offers, explains and refuses."""

from typing import Annotated, Literal

from pydantic import Field

from blocks.clusters.size import DEFAULT_SIZE

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
RunName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=48)]
Size = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$", examples=[DEFAULT_SIZE])]
Model = Annotated[str, Field(min_length=1, pattern=r"^[\w.-]+(/[\w.-]+)?(@[\w./-]+)?$")]
Step = Annotated[str, Field(pattern=r"^(latest|[1-9][0-9]*)$")]
Hold = Literal["link", "copy"]


def step_of(text: str) -> int | Literal["latest"]:
    return "latest" if text == "latest" else int(text)
