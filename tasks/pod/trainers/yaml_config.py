"""Read a trainer's YAML or JSON with errors that say where, and write it again.

YAML is read as YAML 1.2 reads numbers: `2e-5` is one, which PyYAML by itself takes for text. Dates stay text.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.toml_config import DEEPEST

if TYPE_CHECKING:
    import yaml

_MOST_VALUES = 100_000  # aliases of aliases of aliases make billions out of a few lines
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)|[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)\Z"
)


def parse_yaml(text: str, source: str = "The config") -> dict[str, Any]:
    """Parse one YAML document.

    Raises:
        BadInputError: it is empty, malformed, no mapping, has a key twice, or a value that JSON can not have; says the
            line and the column, both from 1, where they are known.
    """
    import yaml

    try:
        config = yaml.load(text.removeprefix("\ufeff"), Loader=_loader())  # noqa: S506 - a SafeLoader, see below
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = " ".join(str(error.problem or error.context).split())
        raise BadInputError(
            f"{source} is not valid YAML: {where}{reason}.",
            "Correct that line; keys are followed by a colon and a space, and levels are indented with spaces.",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "values are nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise BadInputError(f"{source} is not usable YAML: {reason}.", "Mend that place.") from None
    return _checked(config, source, "key: value")


def parse_json(text: str, source: str = "The config") -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        BadInputError: it is empty, malformed, no object, or has a key twice; says the line and the column, both from 1.
    """
    if not text.strip():
        raise BadInputError(f"{source} is empty.", "Write the trainer's config into it.")
    try:
        config = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{source} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}.",
            'Correct that line; keys and text need double quotes, as in "key": "value".',
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "values are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInputError(f"{source} is not usable JSON: {reason}.", "Mend that place.") from None
    return _checked(config, source, '{"key": "value"}')


def dump_yaml(config: dict[str, Any]) -> str:
    """The config in the order of its keys; every reader of YAML 1.1 or 1.2 reads the same values out of it."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(config, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)
    return text


def dump_json(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _checked(config: Any, source: str, example: str) -> dict[str, Any]:
    if config is None:
        raise BadInputError(f"{source} is empty.", "Write the trainer's config into it.")
    if not isinstance(config, dict):
        raise BadInputError(f"{source} is no mapping of keys to values.", f"Write it as {example}.")
    check_values(config, source)
    return config


def check_values(config: dict[str, Any], source: str = "The config") -> None:
    """Raises: BadInputError: a value that JSON, and so a run's record, can not have; names its key."""
    try:
        _check_values(config, source)
    except RecursionError:
        raise BadInputError(f"{source} contains itself, or is nested too deeply.", "Mend that place.") from None


def _check_values(config: dict[str, Any], source: str) -> None:
    for count, (path, value) in enumerate(_values(config, "", 0)):
        if count > _MOST_VALUES:
            raise BadInputError(f"{source} has more than {_MOST_VALUES:,} values.", "Use fewer aliases.")
        if value is _BAD_KEY:
            raise BadInputError(f"{source}: {path} is a key that is no text.", "Put it in quotes.")
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            raise BadInputError(f"{source}: {path} is no finite number.", "Write a number.")
        if not isinstance(value, str | int | float | bool | None):
            raise BadInputError(f"{source}: {path} is a {type(value).__name__}.", "Put it in quotes.")


_BAD_KEY = object()


def _values(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{path}{key!r}", _BAD_KEY
                return
            yield from _values(inner, f"{path}{key}." if isinstance(inner, dict) else f"{path}{key}", depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            here = f"{path.rstrip('.')}.{place}"
            yield from _values(inner, f"{here}." if isinstance(inner, dict) else here, depth + 1)
    else:
        yield path, value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


@cache
def _loader() -> "type[yaml.SafeLoader]":
    import yaml

    class Loader(yaml.SafeLoader):
        """A SafeLoader that refuses a key given twice; of the two, others silently take the last."""

        def construct_mapping(self, node: "yaml.MappingNode", deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value if isinstance(key.value, str) else id(key))
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
    return Loader
