"""Check a config against a small declarative schema: unknown keys with the nearest known, types, bounds."""

import difflib
import json
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.pod.trainers.adapter import Problem


@dataclass(frozen=True)
class Key:
    """One key of a config.

    Args:
        kind: "integer", "number" (an integer will do), "text" (not empty), "boolean", "array", "table" for one whose
            contents are not checked, or "any" for what is not checked at all.
        example: a value as TOML, shown as remedy.
        required: whether a config without it can work.
        at_least, at_most, above, below: bounds of a number; a whole one is always below 2**63, as in TOML.
        length: items of an array; None for any number.
        item: what each item of an array is; None for anything.
        one_of: the texts that are allowed; empty for any.
    """

    kind: Literal["integer", "number", "text", "boolean", "array", "table", "any"]
    example: str = ""
    required: bool = False
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    length: int | None = None
    item: "Key | None" = None
    one_of: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What a value has to be, in words: `a number above 0`."""
        if self.kind == "array":
            items = f"{self.length} items" if self.length is not None else "items"
            return f"a list of {items}" + (f", each {self.item}" if self.item else "")
        if self.one_of:
            return " or ".join(f'"{word}"' for word in self.one_of)
        words = {
            "integer": "a whole number",
            "number": "a number",
            "text": "text",
            "boolean": "true or false",
            "table": "a table",
            "any": "anything",
        }
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (
                ("of at least", self.at_least),
                ("of at most", self.at_most),
                ("above", self.above),
                ("below", self.below),
            )
            if bound is not None
        ]
        return " ".join([words[self.kind], " and ".join(bounds)]).strip()

    def accepts(self, value: Any) -> bool:
        match self.kind:
            case "text":
                return isinstance(value, str) and bool(value.strip()) and (not self.one_of or value in self.one_of)
            case "boolean":
                return isinstance(value, bool)
            case "table":
                return isinstance(value, Mapping)
            case "any":
                return True
            case "array":
                right = isinstance(value, list) and self.length in (None, len(value))
                return right and (self.item is None or all(self.item.accepts(item) for item in value))
        number = int if self.kind == "integer" else int | float
        if isinstance(value, bool) or not isinstance(value, number):
            return False
        if not math.isfinite(value) if isinstance(value, float) else not -(2**63) <= value < 2**63:
            return False
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


PLATFORM: Mapping[str, Key] = {
    "volume": Key("text", '"research"'),
    "volume_size": Key("text", '"500Gi"'),
    "when_full": Key("text", '"hold"', one_of=("hold", "warn")),
    "retention.keep_last": Key("integer", "3", at_least=1),
    "retention.keep_every": Key("integer", "100", at_least=1),
}
"""Keys that are ours, in every trainer's config; `render` strips them."""

OURS = frozenset(name.partition(".")[0] for name in PLATFORM)
"""Their names at the top of a config."""


def check(
    config: Mapping[str, Any], schema: Mapping[str, Key], *, toml: bool = True, ours: Mapping[str, Key] = PLATFORM
) -> list[Problem]:
    """Everything in a config that a schema does not allow, in the order of the config; then what is missing.

    Args:
        config: a parsed config.
        schema: every key that the trainer knows, by dotted name.
        ours: the platform's keys, which a config may have as well.
        toml: remedies are in TOML; else they will do for YAML and JSON.
    """
    known = {**schema, **ours}
    found = list(_faults(config, "", known))
    for name, key in schema.items():
        if key.required and not _present(config, name):
            table, _, leaf = name.rpartition(".")
            where = f" to [{table}]" if table else " at the top"
            assignment = f"{leaf} = {key.example}" if toml else f"{leaf}: {key.example}"
            found.append(Problem(name, "is missing.", f"Add `{assignment}`{where if toml else ''}."))
    return found


def misspelt(
    config: Mapping[str, Any], known: Iterable[str], others: Iterable[str] = (), called: Mapping[str, str] | None = None
) -> list[Problem]:
    """Keys at the top that are most likely meant to be others, for a trainer that may know more than we do.

    Args:
        known: names that are known to us.
        others: names that the trainer knows as well, whatever they are like.
        called: what other trainers call it → what this one does.
    """
    names = {*known, *OURS}
    found = []
    for key in config:
        if key in names or key in set(others):
            continue
        own = (called or {}).get(key)
        near = own or nearest(key, names, cutoff=0.9)
        if near is not None:
            reason = f"is no key that is known here, and is like {near}."
            if own:
                reason = "is no key that is known here: other trainers call something so."
            remedy = f"Write {near}; if it is the trainer's own, name it in the trainer's option extra_keys."
            found.append(Problem(key, reason, remedy))
    return found


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` was most likely meant to be, or None if none is near.

    Args:
        cutoff: how near, from 0 to 1 (the same).
    """
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def _faults(table: Mapping[str, Any], prefix: str, known: Mapping[str, Key]) -> Iterator[Problem]:
    for part, value in table.items():
        name = prefix + (json.dumps(part) if "." in part else part)
        if name in known:
            key = known[name]
            if not key.accepts(value):
                yield Problem(name, f"must be {key}, is {_short(value)}.", f"Write for example {key.example}.")
        elif not any(other.startswith(f"{name}.") for other in known):
            yield Problem(name, "is no key that this trainer knows.", _meant(name, prefix, known))
        elif isinstance(value, Mapping):
            yield from _faults(value, f"{name}.", known)
        else:
            yield Problem(name, f"must be a table, is {_short(value)}.", f"Write [{name}] and its keys below it.")


def _meant(name: str, prefix: str, known: Mapping[str, Key]) -> str:
    leaf = name.removeprefix(prefix)
    if (unquoted := leaf.strip('"')) in known:
        return f"Did you mean {unquoted}?"
    tables = {key.rpartition(".")[0] for key in known} - {""}
    by_leaf: dict[str, str] = {}
    here: dict[str, str] = {}
    for key in [*known, *sorted(tables)]:
        by_leaf.setdefault(key.rpartition(".")[2], key)
        if key.startswith(prefix) and "." not in key.removeprefix(prefix):
            here[key.removeprefix(prefix)] = key
    for names in (here, by_leaf):
        near = nearest(leaf, names)
        if near is not None:
            key = names[near]
            return f"Did you mean {f'[{key}]' if key in tables else key}?"
    place = f"[{prefix[:-1]}]" if prefix else "the top"
    return f"Remove it. Known in {place}: {', '.join(sorted(here)) or 'none'}."


def _present(config: Mapping[str, Any], name: str) -> bool:
    place: Any = config
    for part in name.split("."):
        if not isinstance(place, Mapping):
            return True  # a value where a table belongs: said already
        if part not in place:
            return False
        place = place[part]
    return True


def _short(value: Any) -> str:
    """A value as an error shows it: as it was written, but never long."""
    if isinstance(value, bool):
        return str(value).lower()
    return reprlib.repr(value)
