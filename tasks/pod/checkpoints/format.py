"""The port of a checkpoint format: how it is recognised and how it is judged. A new format is one module with one
`Format` and one line in `tasks/pod/checkpoints/table.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tasks.pod.checkpoints.tree import Tree
from tasks.pod.checkpoints.verdict import Verdict


@dataclass(frozen=True)
class Step:
    """A checkpoint before it is judged.

    Args:
        tree: its files.
        number: the step that its name tells; None if it tells none.
        named: whether its name is that of a step, so that a trainer may still be writing more of it.
        name: its own name.
        deep: read every byte.
        fixed: the format was named by the caller, not found by content.
        siblings: the trees of the other steps beside it, oldest first; called only by formats that need them.
    """

    tree: Tree
    number: int | None
    named: bool
    name: str = ""
    deep: bool = False
    fixed: bool = False
    siblings: Callable[[], Sequence[Tree]] = field(default=tuple)

    def within(self, directory: str) -> "Step":
        """A part of it, judged for itself."""
        return replace(
            self,
            tree=self.tree.within(directory),
            siblings=lambda: [tree.within(directory) for tree in self.siblings()],
        )


@dataclass(frozen=True)
class Finding:
    """What a format says of a step that it has nothing against.

    Args:
        why: the evidence in words.
        resumable: holds optimizer state.
        format: a more exact name than the format's own; None for its own.
        step: the training step, where the content tells it; None for the name's.
        world_size: ranks that saved it; None where nothing tells.
        verdict: other than complete only where the format has to say more than an error can.
    """

    why: str
    resumable: bool
    format: str | None = None
    step: int | None = None
    world_size: int | None = None
    verdict: Verdict = Verdict.COMPLETE


@dataclass(frozen=True)
class Format:
    """One format.

    Args:
        name: as reported, and as a trainer's adapter names it.
        recognises: whether a tree is of this format, by names and small files only; also where it is torn.
        judge: raises `TornError` or `UnclearError` with what speaks against the step, else returns a finding.
    """

    name: str
    recognises: Callable[[Tree], bool]
    judge: Callable[[Step], Finding]
