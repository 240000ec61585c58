"""How a command fails: what happened, its code, what to do next; the exit code says the kind.

0 ok, 1 error, 2 bad arguments, 3 refused by a guard, 4 backend unreachable; 130 Ctrl-C, 141 the
reader of the output went away.
"""

import errno
import os
import sys
from collections.abc import Sequence
from itertools import pairwise

import click

from tallgrass.cli.text import hide_credentials, json_bytes, printable, styled, tell
from tallgrass.error_codes import ErrorCode, lookup
from tallgrass.errors import GuardRefused, TallgrassError

ERROR = 1
BAD_ARGUMENTS = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def report_failure(error: BaseException, args: Sequence[str]) -> int:
    """Print the error as the command line asks for it; return the exit code."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _silence_stdout()
        return BROKEN_PIPE
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _write(f"{error.ctx.get_help()}\n")
        return BAD_ARGUMENTS
    about, message, exit_code = _classified(error)
    message = hide_credentials(message)
    if wants_json(args):
        body = {"code": about.code, "message": printable(message), "remedy": about.remedy}
        if isinstance(error, GuardRefused):
            body["guard"] = error.guard
        _write(json_bytes({"error": body}).decode())
    else:
        guard = error.guard if isinstance(error, GuardRefused) else None
        _write(_for_people(about, message, _usage(error), guard))
    _silence_stdout_if_full()
    return exit_code


def is_expected(error: BaseException) -> bool:
    """Tell whether the error is one that commands are meant to answer with."""
    return isinstance(error, TallgrassError | click.ClickException | OSError | KeyboardInterrupt)


def wants_json(args: Sequence[str]) -> bool:
    """Tell whether errors are wanted as JSON, even if the arguments could not be read."""
    return "--output=json" in args or ("--output", "json") in pairwise(args)


def _classified(error: BaseException) -> tuple[ErrorCode, str, int]:
    if isinstance(error, TallgrassError):
        return error.about, str(error), error.exit_code
    if isinstance(error, click.ClickException):
        return lookup("invalid_input"), _one_line(error.format_message()), BAD_ARGUMENTS
    if isinstance(error, KeyboardInterrupt | click.Abort | EOFError):
        return lookup("interrupted"), "stopped by Ctrl-C", INTERRUPTED
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return lookup("output_failed"), f"{where}{error.strerror or error}", ERROR
    return lookup("internal_error"), f"{type(error).__name__}: {error}", ERROR


def _one_line(text: str) -> str:
    """Join the lines that click breaks a list of choices into; they would show as escapes."""
    return " ".join(line.strip() for line in text.splitlines())


def _usage(error: BaseException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.ctx.get_usage()}\n"
    return ""


def _for_people(about: ErrorCode, message: str, usage: str, guard: str | None) -> str:
    lines = [f"{styled('error:', 'red', bold=True)} {printable(message)}"]
    lines.append(f"  {styled('what to do:', 'cyan')} {about.remedy}")
    # Of a refusal the rule tells more than that it is one.
    told = guard or about.code
    lines.append(f"  {styled('code:', 'cyan')} {about.code}  (tallgrass explain {told})")
    return usage + "\n".join(lines) + "\n"


def _write(text: str) -> None:
    tell(text)  # where nobody listens, the exit code still tells


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's own flush cannot fail."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path of ours
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _silence_stdout_if_full() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
