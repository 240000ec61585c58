"""What was found out about an SQS queue, and what its policy says of senders. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

_SEND = "sqs:sendmessage"
#: Conditions that tie a statement to what sends. The keys are compared in lower case.
_SOURCES = frozenset({"aws:sourcearn", "aws:sourceaccount", "aws:principalorgid"})
_COMPARISONS = re.compile(r"(?:forany\w+:)?(?:arn|string)(?:equals|like)(?:ignorecase)?")
_ARN_PARTS = 6
_SNS = "sns.amazonaws.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsFacts:
    """A queue's own settings, as SQS told them."""

    arn: str
    visibility_s: int
    retention_s: int
    #: None without a redrive policy.
    max_receive_count: int | None
    dead_letter_arn: str | None
    #: None where there is none, or where it could not be looked at: then `dead_letter_trouble`.
    dead_letter_retention_s: int | None
    dead_letter_trouble: str | None
    #: JSON text; empty for none.
    policy: str
    #: `sqs`, the KMS key, or None.
    encryption: str | None
    #: How far AWS's clock is ahead of this machine's.
    clock_ahead_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Who may send by a queue's policy."""

    #: Statements that let in more than they should, each in a few words.
    open_doors: tuple[str, ...]
    #: ARNs of sources that SNS may send for.
    topics: tuple[str, ...]


def read_policy(text: str) -> Sending:
    """Read who may send. Text that is no policy is an open door: nobody knows what it lets in."""
    try:
        statements = _list(json.loads(text)["Statement"])
        allowing = [one for one in statements if one["Effect"] == "Allow" and _sends(one)]
    except (KeyError, TypeError, ValueError):
        return Sending(open_doors=("the policy cannot be read",), topics=())
    doors: list[str] = []
    topics: list[str] = []
    for statement in allowing:
        sources = list(_sources(statement))
        anyone, sns = _principals(statement)
        tied = bool(sources) and not any(_is_anybodys(source) for source in sources)
        if not tied and anyone:
            doors.append("anybody may send")
        elif not tied and sns:
            doors.append("any topic of any account may send: no aws:SourceArn")
        elif sns or anyone:
            topics += sources
    return Sending(open_doors=tuple(doors), topics=tuple(topics))


def may_send(topic: str, sources: Sequence[str]) -> bool:
    """Tell whether a topic, or its account, is among the sources; `*` stands for any text."""
    account = topic.split(":")[4]
    return any(
        source == account
        or re.fullmatch(".*".join(map(re.escape, source.split("*"))), topic) is not None
        for source in sources
    )


def _sends(statement: Mapping[str, Any]) -> bool:
    if "NotAction" in statement:
        return True
    actions = [str(action).lower() for action in _list(statement["Action"])]
    return any(fnmatchcase(_SEND, action) for action in actions)


def _principals(statement: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether a statement speaks of anybody, and of SNS."""
    principal = statement.get("Principal", "*")
    if not isinstance(principal, Mapping):
        return True, True
    return (
        "*" in _list(principal.get("AWS", ())),
        _SNS in _list(principal.get("Service", ())),
    )


def _sources(statement: Mapping[str, Any]) -> Iterator[str]:
    for comparison, pairs in statement.get("Condition", {}).items():
        if _COMPARISONS.fullmatch(comparison.lower()):
            for key, values in pairs.items():
                if key.lower() in _SOURCES:
                    yield from (str(value) for value in _list(values))


def _is_anybodys(source: str) -> bool:
    """Tell whether anybody can make such a source: a topic of that name in an account of theirs."""
    parts = source.split(":", _ARN_PARTS - 1)
    if len(parts) < _ARN_PARTS:
        return "*" in source
    _, _, service, _, account, name = parts
    # A bucket's name is unique over all accounts, so its ARN needs none.
    return name.startswith("*") if service == "s3" else not account.isdigit()


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
