"""What stands for the objects of a pickle that is read inertly: it keeps what it was given and does nothing."""

from typing import Any


class Thing:
    """Stands for an object: the class or function that would make it, what that is given, and the state set on it."""

    __slots__ = ("arguments", "maker", "state")

    def __init__(self, maker: Any, arguments: Any) -> None:
        self.maker = maker
        self.arguments = arguments
        self.state: Any = None

    def get(self, name: str) -> Any:
        """An attribute by its name in the state; None if it has no such one."""
        return self.state.get(name) if isinstance(self.state, Pairs) else None


class Global:
    """Stands for a class or function, by module and name."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Pairs:
    """Stands for a dict; a list of pairs, because hashing what a hostile file made can take for ever."""

    __slots__ = ("pairs",)

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def get(self, name: str) -> Any:
        """The last value of a key that is text; None if there is none."""
        return next((value for key, value in reversed(self.pairs) if type(key) is str and key == name), None)

    def by_text(self) -> dict[str, Any]:
        """Those pairs whose key is text."""
        return {key: value for key, value in self.pairs if type(key) is str}


class Persistent:
    """Stands for what is stored elsewhere, such as a tensor's bytes in torch files."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key
