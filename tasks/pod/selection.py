"""Which files of a repository are wanted: all of them, unless patterns say otherwise."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tasks.pod.errors import BadInputError


@dataclass(frozen=True)
class Selection:
    """Shell patterns over whole paths, as huggingface_hub has them: `*` also matches `/`, and `a/` means `a/*`.

    Args:
        allow: at least one must match; empty for all files.
        ignore: none may match.
    """

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "Selection":
        """Raises: BadInputError: a pattern that can match nothing."""
        patterns = {name: tuple(arguments.get(name) or ()) for name in ("allow", "ignore")}
        for pattern in (*patterns["allow"], *patterns["ignore"]):
            if not isinstance(pattern, str) or not pattern or pattern.startswith("/"):
                raise BadInputError(f"{pattern!r} matches no file.", "Write patterns such as *.safetensors or onnx/*.")
        return cls(**patterns)

    @property
    def everything(self) -> bool:
        return not self.allow and not self.ignore

    def wants(self, path: str) -> bool:
        if self.allow and not _matches(path, self.allow):
            return False
        return not _matches(path, self.ignore)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)
