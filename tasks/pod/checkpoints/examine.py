"""Judges one step by the format that its content shows, in this process: whatever a format raises becomes a verdict."""

from pathlib import Path

from tasks.pod.checkpoints import table
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree
from tasks.pod.checkpoints.verdict import Verdict


def examine(step: Step, fixed: Format | None) -> tuple[Format | None, Finding]:
    """Find the format and judge by it; whatever a format raises becomes a verdict."""
    chosen = fixed
    try:
        chosen = fixed or table.recognised(step.tree)
        if chosen is None:
            return None, _unrecognised(step)
        return chosen, chosen.judge(step)
    except TornError as error:
        return chosen, Finding(str(error), False, verdict=Verdict.INCOMPLETE)
    except FileNotFoundError as error:
        gone = Path(str(error.filename)).name
        return chosen, Finding(f"{gone} went away while it was read", False, verdict=Verdict.INCOMPLETE)
    except UnclearError as error:
        return chosen, Finding(str(error), _has_optimizer(step.tree), verdict=Verdict.UNKNOWN)
    except PermissionError as error:
        why = f"{Path(str(error.filename)).name} can not be read by this user"
        return chosen, Finding(why, _has_optimizer(step.tree), verdict=Verdict.UNKNOWN)
    except Exception as error:  # content that no writer writes must not end a look at its neighbours
        why = f"it can not be read: {type(error).__name__}: {str(error)[:200]}"
        return chosen, Finding(why, False, verdict=Verdict.UNKNOWN)


def _has_optimizer(tree: Tree) -> bool:
    """Whether a step that a person may decide to trust has what training goes on from, by names."""
    return any("optim" in name or name.endswith((".distcp", ".ckpt")) for name in tree.files)


def _unrecognised(step: Step) -> Finding:
    tree = step.tree
    if not tree.files and not tree.links:
        return Finding("there is nothing in it", False, verdict=Verdict.INCOMPLETE)
    return Finding("no known trainer writes such files", False, verdict=Verdict.UNKNOWN)
