"""A command whose first argument is a name: says so where a name is taken for an option."""

from typing import Any

from typer.core import TyperCommand


class NamedCommand(TyperCommand):
    """Names can not start with a hyphen; without this, the answer to one would be about an option `-v`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from blocks.clusters.errors import UsageError

        if word := self._no_option(args):
            raise UsageError(f"{word!r} is neither a name nor an option.", "A name can not start with a hyphen.")
        return super().parse_args(ctx, args)

    def _no_option(self, args: list[str]) -> str | None:
        takes_value: dict[str, bool] = {}
        for parameter in self.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                takes_value[name] = not getattr(parameter, "is_flag", False)
        words = iter(args)
        for word in words:
            if word == "--":
                return None
            if word.startswith("-") and not word.startswith("--") and len(word) > 1 and word[:2] not in takes_value:
                return word
            if takes_value.get(word):
                next(words, None)
        return None
