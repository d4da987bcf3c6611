"""Read a trainer's TOML with errors that say where, change keys by their dotted names, and write it again."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

from tasks.pod.errors import BadInputError

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
DEEPEST = 32
"""Tables and lists within each other."""
_LEAF = "\N{OBJECT REPLACEMENT CHARACTER}"


def parse(text: str | bytes, source: str = "The config") -> dict[str, Any]:
    """Parse TOML.

    Args:
        text: the document; bytes are taken as UTF-8, with or without a byte order mark.
        source: what errors call it, such as a file name.

    Raises:
        BadInputError: not UTF-8, empty, or malformed; says the line and the column, both from 1.
    """
    document = (_decode(text, source) if isinstance(text, bytes) else text).removeprefix("\ufeff")
    try:
        config = tomllib.loads(document)
        check_depth(config)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        reason = message[: place.start()] if place else message
        if place and place[1]:
            line, column = int(place[1]), int(place[2])
        else:
            line, column = _position(document.rstrip("\r\n"))
        raise BadInputError(
            f"{source} is not valid TOML: line {line}, column {column}: {reason}.",
            'Correct that line; text values need quotes, as in name = "value".',
        ) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits; thousands of open brackets
        reason = "values are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInputError(f"{source} is not usable TOML: {reason}.", "Shorten that value.") from error
    if not config:
        raise BadInputError(f"{source} is empty.", "Write the trainer's config into it.")
    return config


def check_depth(config: Mapping[str, Any]) -> None:
    """Raises: RecursionError: tables and lists are nested deeper than what writes them down, or copies them, can go."""
    waiting: list[tuple[Any, int]] = [(config, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(value, Mapping | list):
            inner = value.values() if isinstance(value, Mapping) else value
            waiting += [(item, depth + 1) for item in inner if isinstance(item, Mapping | list)]


def set_keys(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A new config with some keys set; tables on the way are made, list items are named by their index.

    Args:
        config: left as it is.
        changes: values by dotted key, such as `{"optim.lr": 0.01}`; a part with a dot in it is quoted as in
            TOML.

    Raises:
        BadInputError: a key is malformed, it or its value is too deep, or it leads through a value that is neither a
            table nor a list.
    """
    for key, value in changes.items():
        try:
            check_depth({key: value})
        except RecursionError:
            raise BadInputError(f"{key}: the value is nested too deeply.", "Shorten it.") from None
    changed = copy.deepcopy(dict(config))
    for key, value in changes.items():
        parts = split_key(key)
        if len(parts) > DEEPEST:
            raise BadInputError(f"A key of {len(parts)} parts: {key[:60]}…", "Name a key of the config.")
        place: Any = changed
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            step = _index(place, part, key) if isinstance(place, list) else part
            if last:
                place[step] = copy.deepcopy(value)
            elif isinstance(place, list):
                place = place[int(step)]
            else:
                place = place.setdefault(part, {})
            if not last and not isinstance(place, dict | list):
                raise BadInputError(
                    f"{key}: {'.'.join(parts[: depth + 1])} is a value, not a table.",
                    "Name a key of the config.",
                )
    return changed


def parse_assignment(text: str) -> tuple[str, Any]:
    """Split `optim.lr=0.01` into the dotted key and its value: a TOML or JSON literal, else text.

    Raises:
        BadInputError: there is no `=`, the key is malformed, or the value is `null`, which TOML does not
            have.
    """
    key, equals, literal = text.partition("=")
    if not equals:
        raise BadInputError(f"{text!r} sets no key.", "Write KEY=VALUE, such as optim.lr=0.01.")
    key = ".".join(part if re.fullmatch(r"[\w-]+", part) else json.dumps(part) for part in split_key(key.strip()))
    literal = literal.strip()
    try:
        document = tomllib.loads(f"value = {literal}")
        if document.keys() == {"value"}:
            return key, document["value"]
    except (ValueError, RecursionError):
        pass
    try:
        value = json.loads(literal, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return key, literal
    if value is None:
        raise BadInputError(f"{key}: TOML has no null.", 'Give a value, or "null" in quotes for the word.')
    return key, value


def _decode(text: bytes, source: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(text[: error.start].decode("utf-8"))
        raise BadInputError(
            f"{source} is not UTF-8: line {line}, column {column}: byte 0x{text[error.start]:02x}.",
            "Save it as UTF-8.",
        ) from error


def _position(before: str) -> tuple[int, int]:
    """Line and column, from 1, of what follows `before`."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def split_key(key: str) -> list[str]:
    """The parts of a dotted key, read as TOML reads it.

    Raises:
        BadInputError: it is none.
    """
    try:
        if "\n" in key:
            raise ValueError(key)
        table: Any = tomllib.loads(f'{key} = "{_LEAF}"')
        parts: list[str] = []
        while isinstance(table, dict):
            ((part, table),) = table.items()
            parts.append(part)
        if table != _LEAF:
            raise ValueError(key)
    except ValueError as error:
        raise BadInputError(f"{key!r} is no dotted key.", "Write it as in optim.lr.") from error
    return parts


def _index(items: list[Any], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise BadInputError(f"{key}: the list has no item {part!r}.", f"It has items 0 to {len(items) - 1}.")
    return int(part)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)
