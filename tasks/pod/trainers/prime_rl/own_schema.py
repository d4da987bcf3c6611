"""Run by a Python that has prime-rl, or its prime-rl-configs: what prime-rl's own schema has against a config.

The config comes on standard input. The answer is a JSON list of [key, what is wrong]. Imports nothing of Slipway.
"""

import json
import sys
import tomllib
from importlib import import_module
from typing import Any


def wrong(config: dict[str, Any]) -> list[tuple[str, str]]:
    """
    Raises:
        ImportError: this Python has no prime-rl.
    """
    is_rl = "trainer" in config or "orchestrator" in config
    module, name = ("prime_rl.configs.rl", "RLConfig") if is_rl else ("prime_rl.configs.sft", "SFTConfig")
    schema = getattr(import_module(module), name)
    refused = import_module("pydantic").ValidationError
    try:
        schema.model_validate(config)
    except refused as error:
        return [(".".join(str(part) for part in found["loc"]), found["msg"]) for found in error.errors()]
    return []


if __name__ == "__main__":
    print(json.dumps(wrong(tomllib.loads(sys.stdin.read()))))
