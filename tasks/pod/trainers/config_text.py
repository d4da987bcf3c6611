"""The text of a trainer's config in any of the formats that trainers read."""

from collections.abc import Mapping
from typing import Any, Literal

import tomli_w

from tasks.pod.trainers import toml_config, yaml_config

Syntax = Literal["toml", "yaml", "json"]


def parse(text: str, syntax: Syntax) -> dict[str, Any]:
    """Raises: BadInputError: it is malformed; says where."""
    if syntax == "toml":
        return toml_config.parse(text)
    return yaml_config.parse_yaml(text) if syntax == "yaml" else yaml_config.parse_json(text)


def dump(config: Mapping[str, Any], syntax: Syntax) -> str:
    if syntax == "toml":
        return tomli_w.dumps(config)
    return yaml_config.dump_yaml(dict(config)) if syntax == "yaml" else yaml_config.dump_json(dict(config))
