"""What most adapters have in common: no options, no programs of their own, one rank a GPU."""

from collections.abc import Mapping
from typing import Any, Self

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.adapter import ModelSize, Places
from tasks.pod.trainers.schema import Key, check


class Base:
    """The defaults of an adapter's methods (see `tasks.pod.trainers.adapter`).

    Attributes:
        options: what a team can set of it, by name.
    """

    kind: str = ""
    options: Mapping[str, Key] = {}

    def configured(self, options: Mapping[str, Any]) -> Self:
        """Raises: BadInputError: an option that there is not, or a value that it can not have."""
        for problem in check(options, self.options, ours={}):
            raise BadInputError(f"Trainer {self.kind}, option {problem.key}: {problem.reason}", problem.remedy)
        return self._with(options) if options else self

    def _with(self, options: Mapping[str, Any]) -> Self:
        return self

    def programs(self, config: Mapping[str, Any], places: Places) -> Mapping[str, str]:
        return {}

    def ranks(self, gpus: int, nodes: int) -> int:
        return max(1, gpus) * nodes

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        return None

    def own_schema(self) -> tuple[str, str] | None:
        return None

    def reshards(self, config: Mapping[str, Any]) -> bool:
        return False


def without(config: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """A config without some keys at its top."""
    return {key: value for key, value in config.items() if key not in keys}
