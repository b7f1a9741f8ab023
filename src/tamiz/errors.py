"""Every error tamiz raises on purpose. The class says who must act.

    TamizError                    never raised itself
    ├── ConfigError               exit 2: the user edits the config or the command line
    ├── RunError                  exit 1: the run stopped; the message names split, position and cause
    │   ├── SourceError           a source cannot be listed or read
    │   │   └── DamageError       one file of it cannot, and never will: quarantined when there are others
    │   ├── WorkerDiedError       a unit ended every worker that tried it
    │   ├── StoreError            an output cannot be written or read back (disk full, permissions, checksum)
    │   └── BalanceError          the books do not balance: a defect of tamiz, never of the input
    └── SchemaError               a batch breaks the contract of its boundary: a defect of tamiz

    InterruptedRunError           exit 130: Ctrl-C or SIGTERM; no Exception, so that nothing on the way takes it for one

A message is one sentence or two: the file or key, the value seen, what to do.
"""

from __future__ import annotations


class TamizError(Exception):
    """Root of the tree; its message is written for the user."""


class ConfigError(TamizError):
    """The config or the command line is wrong; nothing ran."""


class RunError(TamizError):
    """The run stopped; what was published before stays valid and the same command resumes it."""


class SourceError(RunError):
    """A source cannot be listed or read."""


class DamageError(SourceError):
    """What a file holds cannot be read, whoever reads it; the other files of its source can."""


class WorkerDiedError(RunError):
    """A unit ended every worker that tried it; `exit_codes` of these, negative for a signal."""

    def __init__(self, message: str, exit_codes: tuple[int | None, ...]) -> None:
        super().__init__(message)
        self.exit_codes = exit_codes


class StoreError(RunError):
    """An output cannot be written, or does not read back as written."""


class BalanceError(RunError):
    """Documents, bytes or tokens do not add up."""


class SchemaError(TamizError):
    """A batch does not keep the contract of the boundary it crosses."""


class InterruptedRunError(BaseException):
    """Ctrl-C or SIGTERM. Not KeyboardInterrupt: typer would end the program on that without a word."""
