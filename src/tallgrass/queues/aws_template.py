"""A queue plan as a CloudFormation template.

One stack: the queue with its dead-letter queue, the policy that lets NOAA's topics send to it, one
subscription a topic, and the rights of a worker. Pure: a plan comes in, a JSON value goes out.
"""

import re
from typing import Any

from tallgrass.queues.aws_plan import QUEUE_NAME, QueuePlan, Subscription

#: A message keeps the time of its first sending when it moves to the dead-letter queue: it must be
#: kept longer there, or it is gone before anybody looks.
QUEUE_RETENTION_S = 4 * 86_400
DEAD_LETTER_RETENTION_S = 14 * 86_400

#: All that a worker does with its queue.
WORKER_ACTIONS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
)


def template(plan: QueuePlan) -> dict[str, Any]:
    """Return the CloudFormation template."""
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Tallgrass: notifications of {', '.join(_datasets(plan))} into one queue.",
        "Parameters": _parameters(plan),
        "Resources": {
            "DeadLetterQueue": _dead_letter_queue(),
            "Queue": _queue(),
            "QueuePolicy": _queue_policy(plan),
            **{_logical_id(one): _subscribe(one, plan) for one in plan.subscriptions},
            "WorkerPolicy": _worker_policy(),
            "ObserverPolicy": _observer_policy(),
            "WorkerRole": _worker_role(),
        },
        "Outputs": _outputs(),
    }


def _datasets(plan: QueuePlan) -> list[str]:
    return sorted({dataset for one in plan.subscriptions for dataset in one.datasets})


def _logical_id(subscription: Subscription) -> str:
    """Name a subscription after its whole topic, so that it keeps its name in the next plan."""
    *_, region, account, name = subscription.topic.split(":")
    return "Subscription" + re.sub(r"[^A-Za-z0-9]", "", f"{name}{account}{region}")


def _parameters(plan: QueuePlan) -> dict[str, Any]:
    return {
        "QueueName": {
            "Type": "String",
            "Default": plan.queue_name,
            "AllowedPattern": QUEUE_NAME.pattern,
            "Description": "Name of the queue; that of its dead-letter queue ends in -dlq.",
        },
        "VisibilityTimeout": {
            "Type": "Number",
            "Default": plan.visibility_s,
            "MinValue": 0,
            "MaxValue": 43_200,
            "Description": "Seconds; at least worker.lease_s + 60.",
        },
        "MaxReceiveCount": {
            "Type": "Number",
            "Default": plan.max_receive_count,
            "MinValue": 1,
            "MaxValue": 1000,
            "Description": "Deliveries before the dead-letter queue; below ledger.max_attempts.",
        },
        "WorkerService": {
            "Type": "String",
            "Default": "ec2.amazonaws.com",
            "Description": "Service that runs the workers and may take their role, such as "
            "ec2.amazonaws.com or ecs-tasks.amazonaws.com.",
        },
    }


def _dead_letter_queue() -> dict[str, Any]:
    return {
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "QueueName": {"Fn::Sub": "${QueueName}-dlq"},
            "MessageRetentionPeriod": DEAD_LETTER_RETENTION_S,
            "SqsManagedSseEnabled": True,
        },
    }


def _queue() -> dict[str, Any]:
    return {
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "QueueName": {"Ref": "QueueName"},
            "VisibilityTimeout": {"Ref": "VisibilityTimeout"},
            "MessageRetentionPeriod": QUEUE_RETENTION_S,
            "ReceiveMessageWaitTimeSeconds": 20,
            "SqsManagedSseEnabled": True,
            "RedrivePolicy": {
                "deadLetterTargetArn": _arn("DeadLetterQueue"),
                "maxReceiveCount": {"Ref": "MaxReceiveCount"},
            },
        },
    }


def _queue_policy(plan: QueuePlan) -> dict[str, Any]:
    return {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {
            "Queues": [{"Ref": "Queue"}],
            "PolicyDocument": _document(
                {
                    "Sid": "OnlyTheseTopicsMaySend",
                    "Effect": "Allow",
                    "Principal": {"Service": "sns.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": _arn("Queue"),
                    "Condition": {"ArnEquals": {"aws:SourceArn": list(plan.topics)}},
                }
            ),
        },
    }


def _subscribe(subscription: Subscription, plan: QueuePlan) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "Protocol": "sqs",
        "TopicArn": subscription.topic,
        "Region": subscription.region,
        "Endpoint": _arn("Queue"),
        "RawMessageDelivery": plan.raw_delivery,
    }
    if subscription.filter_policy is not None:
        properties["FilterPolicyScope"] = subscription.filter_scope
        properties["FilterPolicy"] = subscription.filter_policy
    return {
        "Type": "AWS::SNS::Subscription",
        # What is sent before the policy stands is refused, and SNS does not send it again.
        "DependsOn": "QueuePolicy",
        "Properties": properties,
    }


def _worker_policy() -> dict[str, Any]:
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": "What a worker does with its queue. Objects are read unsigned.",
            "Roles": [{"Ref": "WorkerRole"}],
            "PolicyDocument": _document(
                {"Effect": "Allow", "Action": list(WORKER_ACTIONS), "Resource": _arn("Queue")}
            ),
        },
    }


def _observer_policy() -> dict[str, Any]:
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": "Count what waits, also among dead letters; for people and dashboards.",
            "PolicyDocument": _document(
                {
                    "Effect": "Allow",
                    "Action": ["sqs:GetQueueAttributes"],
                    "Resource": [_arn("Queue"), _arn("DeadLetterQueue")],
                }
            ),
        },
    }


def _worker_role() -> dict[str, Any]:
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": {"Ref": "WorkerService"}},
        "Action": "sts:AssumeRole",
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": _document(trust),
        },
    }


def _outputs() -> dict[str, Any]:
    return {
        "QueueUrl": {"Description": "The value of queue.url.", "Value": {"Ref": "Queue"}},
        "QueueArn": {"Description": "Also a value of queue.url.", "Value": _arn("Queue")},
        "DeadLetterQueueUrl": {"Value": {"Ref": "DeadLetterQueue"}},
        "WorkerRoleArn": {"Value": _arn("WorkerRole")},
        "WorkerPolicyArn": {"Value": {"Ref": "WorkerPolicy"}},
        "ObserverPolicyArn": {"Value": {"Ref": "ObserverPolicy"}},
    }


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _arn(logical_id: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [logical_id, "Arn"]}
