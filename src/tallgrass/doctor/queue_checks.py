"""Checks of the queue: its settings against the ledger's, its rights, its dead letters."""

from tallgrass.doctor.finding import (
    EmbeddedQueue,
    Facts,
    Finding,
    NotAsked,
    Trouble,
    ok,
    problem,
    skipped,
    warning,
)
from tallgrass.queues.queue_facts import SqsFacts, may_send, read_policy

#: A message stays hidden so much longer than the lease of the worker that has it.
SAFETY_WINDOW_S = 60


def check_visibility(facts: Facts) -> Finding:
    """A message stays hidden for longer than the lease of the worker that has it."""
    name = "visibility"
    needed_s = facts.config.number("worker.lease_s") + SAFETY_WINDOW_S
    asked_s = facts.config.number("queue.visibility_s")
    seen = f"a worker asks for {asked_s:g} s; lease + {SAFETY_WINDOW_S} s = {needed_s:g} s"
    if asked_s < needed_s:
        return problem(name, seen, f"queue.visibility_s must be at least {needed_s:g}")
    if not isinstance(facts.queue, SqsFacts):
        return ok(name, seen)
    seen = f"{seen}; the queue's own {facts.queue.visibility_s} s"
    if facts.queue.visibility_s < needed_s:
        fix = f"set the queue's VisibilityTimeout to {asked_s:g} for others who read it"
        return warning(name, seen, fix)
    return ok(name, seen)


def check_attempts(facts: Facts) -> Finding:
    """The ledger gives up later than the queue: what stays failed reaches the dead-letter queue."""
    name = "attempts"
    configured = facts.config.integer("queue.max_receive_count")
    receives: int | None = configured
    if isinstance(facts.queue, SqsFacts):
        receives = facts.queue.max_receive_count
    if receives is None:
        return skipped(name, "the queue has no dead-letter queue")
    rules = facts.config.rules
    limits = {"ledger.max_attempts": rules.max_attempts}
    for dataset in rules.exceptions:
        limits[f"ledger.exceptions.{dataset}"] = rules.max_attempts_of(dataset)
    low = {key: limit for key, limit in limits.items() if limit <= receives}
    seen = f"ledger.max_attempts {rules.max_attempts}, the queue's maxReceiveCount {receives}"
    if low:
        return problem(name, seen, f"{' and '.join(low)} must be above {receives}")
    if receives != configured:
        fix = f"set queue.max_receive_count to {receives}, as the queue has it"
        return warning(name, f"{seen}; queue.max_receive_count says {configured}", fix)
    return ok(name, seen)


def check_credentials(facts: Facts) -> Finding:
    """AWS's standard chain finds credentials; they are never shown."""
    name, found = "credentials", facts.credentials
    if isinstance(found, NotAsked):
        return skipped(name, found.reason)
    fix = (
        "give the worker a role, or set AWS_PROFILE or AWS_ACCESS_KEY_ID; `tallgrass aws plan` "
        "makes a role with the rights that it needs"
    )
    if isinstance(found, Trouble):
        return problem(name, found.message, fix)
    if found is None:
        return problem(name, "the standard chain finds none", fix)
    return ok(name, f"found by {found}")


def check_queue(facts: Facts) -> Finding:
    """The queue answers, and may be looked at."""
    name, found = "queue", facts.queue
    if isinstance(found, NotAsked):
        return skipped(name, found.reason)
    if isinstance(found, Trouble):
        return problem(name, found.message, found.remedy)
    if isinstance(found, SqsFacts):
        return ok(name, f"{found.arn} answers; its settings may be read")
    if found.waiting is None:
        return ok(name, "the embedded queue is made by whoever uses it first")
    return ok(name, f"embedded; {found.waiting:,} waiting, {found.dead or 0:,} dead letters")


def check_dead_letters(facts: Facts) -> Finding:
    """What cannot be solved goes to a queue that keeps it for longer than the first one."""
    name, found = "dead-letters", facts.queue
    if isinstance(found, EmbeddedQueue):
        return ok(name, "the embedded queue keeps its dead letters for good")
    if not isinstance(found, SqsFacts):
        return skipped(name, "the queue could not be looked at")
    if found.dead_letter_arn is None:
        fix = "give the queue a RedrivePolicy (`tallgrass aws plan` shows one)"
        return problem(name, "the queue has no dead-letter queue", fix)
    if found.dead_letter_retention_s is None:
        fix = "grant sqs:GetQueueAttributes on the dead-letter queue to whoever runs this"
        return warning(name, f"{found.dead_letter_arn}: {found.dead_letter_trouble}", fix)
    seen = (
        f"{found.dead_letter_arn} keeps {_days(found.dead_letter_retention_s)}, "
        f"the queue {_days(found.retention_s)}"
    )
    if found.dead_letter_retention_s <= found.retention_s:
        fix = (
            "set the dead-letter queue's MessageRetentionPeriod to 1209600 (14 days): a message "
            "keeps the time of its first sending when it moves"
        )
        return warning(name, seen, fix)
    return ok(name, seen)


def check_queue_policy(facts: Facts) -> Finding:
    """Only the topics that were subscribed to may send."""
    name, found = "queue-policy", facts.queue
    if not isinstance(found, SqsFacts):
        return skipped(name, _why_no_sqs(facts))
    topics = facts.config.text("queue.topics").split()
    if not found.policy:
        fix = "add a policy that lets sns.amazonaws.com send with aws:SourceArn = your topics"
        return warning(name, "no policy: SNS cannot deliver", fix)
    sending = read_policy(found.policy)
    if sending.open_doors:
        fix = "allow sqs:SendMessage to sns.amazonaws.com only with aws:SourceArn = your topics"
        return problem(name, "; ".join(sending.open_doors), fix)
    shut_out = [topic for topic in topics if not may_send(topic, sending.topics)]
    if shut_out:
        fix = "add them to aws:SourceArn, or take them out of queue.topics"
        return warning(name, f"may not send: {', '.join(shut_out)}", fix)
    return ok(name, f"may send: {', '.join(sending.topics) or 'the account itself alone'}")


def check_encryption(facts: Facts) -> Finding:
    """Messages are encrypted at rest, by a key that SNS may use."""
    name, found = "encryption", facts.queue
    if not isinstance(found, SqsFacts):
        return skipped(name, _why_no_sqs(facts))
    if found.encryption is None:
        return warning(name, "none", "set the queue's SqsManagedSseEnabled to true")
    if found.encryption.endswith("alias/aws/sqs"):
        fix = "use SqsManagedSseEnabled, or a KMS key whose policy lets sns.amazonaws.com use it"
        return problem(name, "by aws/sqs, a key that SNS may not use: nothing arrives", fix)
    by_sqs = found.encryption == "sqs"
    return ok(name, "by SQS" if by_sqs else f"by {found.encryption}; SNS must be let use it")


def check_signatures(facts: Facts) -> Finding:
    """Messages prove who sent them, or the queue policy stands for it."""
    name = "signatures"
    required = facts.config.text("queue.signatures") == "required"
    topics = facts.config.text("queue.topics").split()
    if not facts.on_sqs:
        return skipped(name, "the embedded queue is filled on this machine")
    if not required:
        fix = "queue.signatures = 'required', with subscriptions whose raw delivery is off"
        return warning(name, "not asked for: trust rests on the queue policy alone", fix)
    if not topics:
        fix = "name the topics in queue.topics: any topic of SNS has a valid signature"
        return warning(name, "required, of any topic", fix)
    return ok(name, f"required, of {len(topics)} topics; raw delivery must be off for it")


def _why_no_sqs(facts: Facts) -> str:
    return "the queue could not be looked at" if facts.on_sqs else "the queue is embedded"


def _days(seconds: int) -> str:
    return f"{seconds / 86_400:g} days"
