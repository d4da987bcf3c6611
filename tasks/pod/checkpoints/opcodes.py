"""The opcodes of a pickle as operations that only build stubs and plain values. An opcode that is not here, and any
limit, ends the reading.

The opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
"""

import struct
import time
from collections.abc import Callable, Collection
from typing import Any

from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.stubs import Global, Pairs, Persistent, Thing

MOST_OPERATIONS = 10_000_000
MOST_OBJECTS = 3_000_000
MOST_SECONDS = 30.0


class Machine:
    """Reads one pickle; `run` returns its object. Raises what Python raises at wrong operands; `inert.read` says it."""

    def __init__(
        self,
        text: bytes,
        what: str,
        allowed: Collection[tuple[str, str]] | None,
        persistent: list[Any] | None,
    ) -> None:
        self.text = text
        self.at = 0
        self.what = what
        self.allowed = allowed
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.globals: dict[tuple[str, str], Global] = {}

    def run(self) -> Any:
        text, table = self.text, OPERATIONS
        end = time.monotonic() + MOST_SECONDS
        for count in range(MOST_OPERATIONS):
            code = text[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                return self.stack.pop()
            operation = table.get(code)
            if operation is None:
                raise UnclearError(f"{self.what} has the pickle opcode {code:#04x}, which no such file has")
            operation(self)
            if not count & 0xFFFF:
                kept = len(self.stack) + len(self.memo) + len(self.marks)
                if kept > MOST_OBJECTS or time.monotonic() > end:
                    break
        raise UnclearError(f"{self.what} takes more time or memory to read than any such file")

    def bytes_of(self, size: int) -> bytes:
        at = self.at
        self.at = at + size
        if self.at > len(self.text):
            raise IndexError
        return self.text[at : self.at]

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.bytes_of(size), "little", signed=signed)

    def line(self) -> str:
        end = self.text.index(b"\n", self.at)
        found = self.text[self.at : end].decode()
        self.at = end + 1
        return found

    def since_mark(self) -> list[Any]:
        mark = self.marks.pop()
        found = self.stack[mark:]
        del self.stack[mark:]
        return found

    def named(self, module: Any, name: Any) -> Global:
        if type(module) is not str or type(name) is not str:
            raise TypeError
        found = self.globals.get((module, name))
        if found is None:
            if self.allowed is not None and (module, name) not in self.allowed:
                raise UnclearError(f"{self.what} names {f'{module}.{name}'[:100]}, which is not known to be harmless")
            found = self.globals[module, name] = Global(module, name)
        return found


def _constant(value: Any) -> Callable[[Machine], None]:
    return lambda r: r.stack.append(value)


def _sized(size: int, make: Callable[[bytes], Any]) -> Callable[[Machine], None]:
    """An operation whose argument is a length and that many bytes."""
    return lambda r: r.stack.append(make(r.bytes_of(r.number(size))))


def _integer(size: int, signed: bool = False) -> Callable[[Machine], None]:
    return lambda r: r.stack.append(r.number(size, signed))


def _skip(size: int) -> Callable[[Machine], None]:
    def skip(r: Machine) -> None:
        r.bytes_of(size)

    return skip


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _float(r: Machine) -> None:
    r.stack.append(struct.unpack(">d", r.bytes_of(8))[0])


def _pop(r: Machine) -> None:
    r.stack.pop()


def _pop_mark(r: Machine) -> None:
    r.since_mark()


def _mark(r: Machine) -> None:
    r.marks.append(len(r.stack))


def _empty_list(r: Machine) -> None:
    r.stack.append([])


def _append(r: Machine) -> None:
    value = r.stack.pop()
    _extend(r.stack[-1], [value])


def _appends(r: Machine) -> None:
    values = r.since_mark()
    _extend(r.stack[-1], values)


def _extend(target: Any, values: list[Any]) -> None:
    if type(target) is list:
        target.extend(values)
    elif type(target) is not Thing:  # a list's subclass is a Thing, whose items nobody asks for
        raise TypeError


def _tuple(size: int) -> Callable[[Machine], None]:
    def make(r: Machine) -> None:
        if len(r.stack) < size:
            raise IndexError
        r.stack[-size:] = [tuple(r.stack[-size:])]

    return make


def _tuple_since_mark(r: Machine) -> None:
    r.stack.append(tuple(r.since_mark()))


def _list_since_mark(r: Machine) -> None:
    r.stack.append(r.since_mark())


def _empty_dict(r: Machine) -> None:
    r.stack.append(Pairs())


def _set_item(r: Machine) -> None:
    value, key = r.stack.pop(), r.stack.pop()
    _update(r.stack[-1], [key, value])


def _set_items(r: Machine) -> None:
    values = r.since_mark()
    _update(r.stack[-1], values)


def _dict_since_mark(r: Machine) -> None:
    values = r.since_mark()
    r.stack.append(Pairs())
    _update(r.stack[-1], values)


def _update(target: Any, values: list[Any]) -> None:
    if type(target) is Pairs:
        target.pairs.extend(zip(values[::2], values[1::2], strict=True))
    elif type(target) is not Thing:  # an OrderedDict
        raise TypeError
    elif target.state is None or type(target.state) is Pairs:
        target.state = target.state or Pairs()
        target.state.pairs.extend(zip(values[::2], values[1::2], strict=True))


def _put(size: int) -> Callable[[Machine], None]:
    def put(r: Machine) -> None:
        r.memo[r.number(size)] = r.stack[-1]

    return put


def _memoize(r: Machine) -> None:
    r.memo[len(r.memo)] = r.stack[-1]


def _get(size: int) -> Callable[[Machine], None]:
    return lambda r: r.stack.append(r.memo[r.number(size)])


def _global(r: Machine) -> None:
    r.stack.append(r.named(r.line(), r.line()))


def _stack_global(r: Machine) -> None:
    name, module = r.stack.pop(), r.stack.pop()
    r.stack.append(r.named(module, name))


def _reduce(r: Machine) -> None:
    arguments, maker = r.stack.pop(), r.stack.pop()
    r.stack.append(Thing(maker, arguments))


def _new_with_keywords(r: Machine) -> None:
    _pop(r)
    _reduce(r)


def _build(r: Machine) -> None:
    state = r.stack.pop()
    target = r.stack[-1]
    if type(target) is not Thing:
        raise TypeError
    target.state = state


def _persistent(r: Machine) -> None:
    key = r.stack.pop()
    if r.persistent is not None:
        r.persistent.append(key)
    r.stack.append(Persistent(key))


OPERATIONS: dict[int, Callable[[Machine], None]] = {
    0x80: _skip(1), 0x95: _skip(8),
    ord("("): _mark, ord("0"): _pop, ord("1"): _pop_mark,
    ord("N"): _constant(None), 0x88: _constant(True), 0x89: _constant(False),
    ord("K"): _integer(1), ord("M"): _integer(2), ord("J"): _integer(4, signed=True),
    0x8A: _sized(1, lambda raw: int.from_bytes(raw, "little", signed=True)), ord("G"): _float,
    0x8C: _sized(1, _text), ord("X"): _sized(4, _text), 0x8D: _sized(8, _text),
    ord("C"): _sized(1, bytes), ord("B"): _sized(4, bytes), 0x8E: _sized(8, bytes), 0x96: _sized(8, bytes),
    ord("U"): _sized(1, bytes), ord("T"): _sized(4, bytes),
    ord("]"): _empty_list, ord("a"): _append, ord("e"): _appends, ord("l"): _list_since_mark,
    0x8F: _empty_list, 0x90: _appends, 0x91: _tuple_since_mark,  # sets, whose order and uniqueness nobody asks for
    ord(")"): _constant(()), 0x85: _tuple(1), 0x86: _tuple(2), 0x87: _tuple(3), ord("t"): _tuple_since_mark,
    ord("}"): _empty_dict, ord("s"): _set_item, ord("u"): _set_items, ord("d"): _dict_since_mark,
    ord("q"): _put(1), ord("r"): _put(4), 0x94: _memoize, ord("h"): _get(1), ord("j"): _get(4),
    ord("c"): _global, 0x93: _stack_global, ord("R"): _reduce, 0x81: _reduce, 0x92: _new_with_keywords,
    ord("b"): _build, ord("Q"): _persistent,
}  # fmt: skip
