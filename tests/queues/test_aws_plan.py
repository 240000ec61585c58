"""The AWS plan: topics, filters, policy, rights; deployed in both emulators, messages flow."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import InvalidInput
from tallgrass.queues.aws_plan import QueuePlan, Subscription, choose, plan_queue, sns_topics
from tallgrass.queues.aws_template import template
from tallgrass.queues.aws_volume import estimate

if TYPE_CHECKING:
    from tallgrass.datasets.definition import Dataset
    from tests.support.aws import AwsServer

HRRR_TOPIC = "arn:aws:sns:us-east-1:123901341784:NewHRRRObject"
CHUNK_TOPIC = "arn:aws:sns:us-east-1:684042711724:NewNEXRADLevel2ObjectFilterable"


def dataset(
    name: str, *, topics: tuple[str, ...] | None = None, prefixes: tuple[str, ...] | None = None
) -> Dataset:
    """Return a shipped dataset, with other topics or beginnings of keys."""
    found = default_catalogue().dataset(name)
    assert found is not None
    key = found.key if prefixes is None else replace(found.key, prefixes=prefixes)
    return replace(found, topics=found.topics if topics is None else topics, key=key)


def planned(*datasets: Dataset, **options: Any) -> QueuePlan:
    """Plan a queue for whole datasets."""
    return plan_queue([choose(one, ()) for one in datasets], queue_name="q", **options)


def only(plan: QueuePlan) -> Subscription:
    """Return the one subscription of a plan."""
    (subscription,) = plan.subscriptions
    return subscription


def filter_of(one: Dataset, *wanted: str) -> tuple[str | None, Any]:
    """Return scope and policy of the filter of a dataset with one topic."""
    found = only(plan_queue([choose(one, wanted)], queue_name="q"))
    return found.filter_scope, found.filter_policy


def keys_of(policy: Any) -> list[dict[str, str]]:
    """Return the rules for the key of an S3 event."""
    rules: list[dict[str, str]] = policy["Records"]["s3"]["object"]["key"]
    return rules


# --- what is filtered -----------------------------------------------------------------------------


def test_s3_events_are_filtered_by_their_body() -> None:
    """A dataset's own beginning of keys is the filter; the scope is the message body."""
    assert filter_of(dataset("hrrr")) == (
        "MessageBody",
        {"Records": {"s3": {"object": {"key": [{"prefix": "hrrr."}]}}}},
    )


def test_a_dataset_of_the_whole_topic_is_not_filtered() -> None:
    """Keys that begin anyhow need no filter."""
    assert filter_of(dataset("nexrad-l2")) == (None, None)


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        ("hrrr.20260601/conus/", {"prefix": "hrrr.20260601/conus/"}),
        ("hr", {"prefix": "hrrr."}),
        ("hrrr.*/conus/*sfc*", {"wildcard": "hrrr.*/conus/*sfc*"}),
        ("hrrr.2026 a:b", {"prefix": "hrrr.2026+a%3Ab"}),
        ("hrrr.*/a:b/*", {"wildcard": "hrrr.*/a%3Ab/*"}),
    ],
)
def test_a_prefix_narrows_the_filter(wanted: str, rule: dict[str, str]) -> None:
    """Plain text is a beginning, with * a form; both as S3 writes keys in events."""
    assert keys_of(filter_of(dataset("hrrr"), wanted)[1]) == [rule]


def test_a_site_of_keys_that_begin_with_a_date() -> None:
    """Where the date comes first, a form picks the radar."""
    assert keys_of(filter_of(dataset("nexrad-l2"), "*/KTLX/*")[1]) == [{"wildcard": "*/KTLX/*"}]


@pytest.mark.parametrize("wanted", ["gfs.2026", "*/conus/*"])
def test_a_prefix_that_no_key_can_meet_is_refused(wanted: str) -> None:
    """Nothing would arrive, or more than the dataset: the error says how its keys begin."""
    with pytest.raises(InvalidInput, match=r"begin with 'hrrr\.'"):
        choose(dataset("hrrr"), [wanted])


def test_datasets_of_one_topic_share_its_subscription() -> None:
    """SNS knows one subscription a topic and queue: the filter takes what either wants, once."""
    glm = dataset("goes-glm", topics=(HRRR_TOPIC,))
    suvi = replace(
        dataset("goes-glm", topics=(HRRR_TOPIC,), prefixes=("SUVI-L1b-", "SUVI-L1b-Fe093/")),
        id="goes-suvi",
    )
    found = only(planned(suvi, glm))
    assert found.datasets == ("goes-glm", "goes-suvi")
    assert keys_of(found.filter_policy) == [{"prefix": "GLM-L2-LCFA/"}, {"prefix": "SUVI-L1b-"}]


def test_a_dataset_of_the_whole_topic_lifts_the_filter_of_its_neighbour() -> None:
    """One of two wants everything: then everything comes."""
    whole = replace(dataset("nexrad-l2", topics=(HRRR_TOPIC,)), id="whole")
    assert only(planned(dataset("hrrr"), whole)).filter_policy is None


def test_a_filter_that_sns_would_refuse_is_left_out_with_a_note() -> None:
    """150 combinations at most, four for a value so deep: 37 beginnings pass, 38 do not."""
    many = tuple(f"p{number:02}/" for number in range(38))
    fits = only(planned(dataset("hrrr", prefixes=many[:37])))
    assert len(keys_of(fits.filter_policy)) == 37
    assert fits.note is None
    too_many = only(planned(dataset("hrrr", prefixes=many)))
    assert too_many.filter_policy is None
    assert too_many.note == "not filtered: 38 beginnings of keys, a filter takes 37"


@pytest.mark.parametrize(
    ("wanted", "scope", "policy"),
    [
        ((), None, None),
        (("KTLX/", "KDMX/"), "MessageAttributes", {"SiteID": ["KDMX", "KTLX"]}),
        (("KT",), "MessageAttributes", {"SiteID": [{"prefix": "KT"}]}),
        (("KTLX/399/",), "MessageBody", {"Key": [{"prefix": "KTLX/399/"}]}),
        (("*/399/*-S",), "MessageBody", {"Key": [{"wildcard": "*/399/*-S"}]}),
    ],
)
def test_the_chunk_topic_is_filtered_in_its_own_way(
    wanted: tuple[str, ...], scope: str | None, policy: Any
) -> None:
    """Its messages are no S3 events: a site is an attribute, anything finer the key in the body."""
    assert filter_of(dataset("nexrad-l2", topics=(CHUNK_TOPIC,)), *wanted) == (scope, policy)


# --- where ----------------------------------------------------------------------------------------


def test_a_subscription_is_made_where_its_topic_is() -> None:
    """The region comes from the ARN; the queue stands with most topics, or as told."""
    west = dataset("hrrr", topics=("arn:aws:sns:us-west-2:709902155096:NewCRISObject",))
    plan = planned(dataset("goes-glm"), west)
    assert (plan.region, plan.other_regions) == ("us-east-1", ("us-west-2",))
    regions = {
        one["Properties"]["TopicArn"]: one["Properties"]["Region"]
        for one in template(plan)["Resources"].values()
        if one["Type"] == "AWS::SNS::Subscription"
    }
    assert regions["arn:aws:sns:us-west-2:709902155096:NewCRISObject"] == "us-west-2"
    assert regions["arn:aws:sns:us-east-1:123901341784:NewGOES19Object"] == "us-east-1"
    moved = planned(dataset("goes-glm"), west, region="us-west-2")
    assert (moved.region, moved.other_regions) == ("us-west-2", ("us-east-1",))


def test_topics_of_one_name_in_two_accounts_are_both_subscribed() -> None:
    """NewRRFSObject exists twice: neither takes the other's place in the template."""
    topics = tuple(f"arn:aws:sns:us-east-1:{n}:NewRRFSObject" for n in (123901341784, 709902155096))
    resources = template(planned(dataset("hrrr", topics=topics)))["Resources"]
    subscribed = [
        one["Properties"]["TopicArn"]
        for one in resources.values()
        if one["Type"] == "AWS::SNS::Subscription"
    ]
    assert sorted(subscribed) == sorted(topics)


def test_a_dataset_without_a_topic_is_refused_with_the_alternative() -> None:
    """The error says where its objects can be listed."""
    with pytest.raises(InvalidInput, match="s3://noaa-hrrr-bdp-pds/") as refused:
        choose(dataset("hrrr", topics=()), ())
    assert refused.value.code == "no_topic"
    with pytest.raises(InvalidInput):
        choose(dataset("hrrr", topics=("projects/p/topics/t",)), ())


@pytest.mark.parametrize(
    ("name", "region", "named"), [("a b", None, "'a b'"), ("q", "Virginia", "'Virginia'")]
)
def test_names_that_aws_would_refuse_are_refused_here(
    name: str, region: str | None, named: str
) -> None:
    """A queue's name and a region have their forms; the error repeats what has not."""
    with pytest.raises(InvalidInput, match=named):
        plan_queue([choose(dataset("hrrr"), ())], queue_name=name, region=region)


# --- what the template grants ---------------------------------------------------------------------


def test_only_the_chosen_topics_may_send() -> None:
    """SNS alone, for these topics alone; nobody else is named."""
    plan = planned(dataset("goes-glm"), dataset("hrrr"))
    (statement,) = template(plan)["Resources"]["QueuePolicy"]["Properties"]["PolicyDocument"][
        "Statement"
    ]
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert statement["Action"] == "sqs:SendMessage"
    assert statement["Condition"] == {
        "ArnEquals": {
            "aws:SourceArn": [
                "arn:aws:sns:us-east-1:123901341784:NewGOES16Object",
                "arn:aws:sns:us-east-1:123901341784:NewGOES17Object",
                "arn:aws:sns:us-east-1:123901341784:NewGOES18Object",
                "arn:aws:sns:us-east-1:123901341784:NewGOES19Object",
                HRRR_TOPIC,
            ]
        }
    }


def test_a_worker_may_do_four_things_to_its_queue() -> None:
    """Least privilege: no sending, no purging, no other queue, no bucket."""
    resources = template(planned(dataset("hrrr")))["Resources"]
    (statement,) = resources["WorkerPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert sorted(statement["Action"]) == [
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
    ]
    assert statement["Resource"] == {"Fn::GetAtt": ["Queue", "Arn"]}
    assert resources["WorkerPolicy"]["Properties"]["Roles"] == [{"Ref": "WorkerRole"}]
    assert set(resources["WorkerRole"]["Properties"]) == {"AssumeRolePolicyDocument"}
    (watching,) = resources["ObserverPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert watching["Action"] == ["sqs:GetQueueAttributes"]


def test_signatures_can_be_checked_unless_raw_is_asked_for() -> None:
    """Raw delivery drops the envelope that carries the signature: off by default."""
    for raw in (False, True):
        found = template(planned(dataset("hrrr"), raw_delivery=raw))["Resources"]
        properties = found["SubscriptionNewHRRRObject123901341784useast1"]["Properties"]
        assert properties["RawMessageDelivery"] is raw


# --- what it carries and costs --------------------------------------------------------------------


def test_the_cost_is_the_shown_arithmetic() -> None:
    """HRRR by hand: 6,304 × 30 × 1.2 requests at least; × 3 and a poll each 2 s at most."""
    found = estimate([choose(dataset("hrrr"), ())], wait_s=20)
    assert found.messages_a_day == (6_304, 6_304)
    assert found.requests_a_month == (226_944, 567_360 + 1_296_000)
    assert found.cost_usd_a_month == (0.0, 0.35)
    assert "6,304 a day × 30 days × 1.2 requests = 226,944" in found.arithmetic[0]
    assert (
        "(1,863,360 - 1,000,000 free, not below 0) × 0.40 USD / 1,000,000 = 0.35 USD"
        in (found.arithmetic[-1])
    )
    assert "as of 2026-06" in found.price


def test_a_shorter_wait_asks_more_often() -> None:
    """A worker that may wait for one second only polls each second."""
    assert estimate([choose(dataset("hrrr"), ())], wait_s=1).requests_a_month[1] == (
        567_360 + 2_592_000
    )


def test_a_narrowed_dataset_is_an_upper_bound() -> None:
    """What part a prefix takes is not known: nothing at least, the whole dataset at most."""
    found = estimate([choose(dataset("goes-glm"), ["GLM-L2-LCFA/2026/"])], wait_s=20)
    assert found.messages_a_day == (0, 8_640)
    assert "at most" in found.volumes[0].basis


def test_a_dataset_that_nobody_counted_says_so() -> None:
    """At least one object each cadence and topic, at most all the uncounted ones together."""
    unknown = replace(dataset("hrrr"), id="unheard-of", cadence_s=3600.0)
    found = estimate([choose(unknown, ())], wait_s=20)
    assert found.messages_a_day == (24, 200_000)
    assert "guess" in found.volumes[0].basis
    irregular = replace(unknown, cadence_s=None)
    assert estimate([choose(irregular, ())], wait_s=20).messages_a_day == (0, 200_000)


def test_a_bound_that_datasets_share_counts_once() -> None:
    """Two that nobody counted: 24 objects each at least, 200,000 together at most."""
    pair = [replace(dataset("hrrr"), id=name, cadence_s=3600.0) for name in ("a", "b")]
    found = estimate([choose(one, ()) for one in pair], wait_s=20)
    assert found.messages_a_day == (48, 200_000)


def test_all_of_nodd_fits_into_one_queue() -> None:
    """Every shipped dataset with a topic can be planned, all together, and adds up plausibly.

    The whole feed is 4 to 7.5 million objects a day; SQS takes a policy of 8,192 bytes.
    """
    choices = [choose(one, ()) for one in default_catalogue().datasets if sns_topics(one)]
    plan = plan_queue(choices, queue_name="q")
    resources = template(plan)["Resources"]
    kinds = [one["Type"] for one in resources.values()]
    assert kinds.count("AWS::SNS::Subscription") == len(set(plan.topics)) >= 84
    assert len(json.dumps(resources["QueuePolicy"]["Properties"]["PolicyDocument"])) < 8_192
    low, high = estimate(choices, wait_s=20).messages_a_day
    assert low < 4_000_000
    assert 4_000_000 < high < 9_000_000


# --- deployed -------------------------------------------------------------------------------------


def event(key: str) -> str:
    """Return an S3 event, as SNS sends it."""
    record = {"s3": {"bucket": {"name": "noaa-hrrr-bdp-pds"}, "object": {"key": key}}}
    return json.dumps({"Records": [record]})


class Stack:
    """The template of a plan, deployed under a name of its own."""

    def __init__(self, server: AwsServer, body: dict[str, Any]) -> None:
        self.server = server
        self.body = body
        self.client = server.client("cloudformation")
        self.name = f"stack-{uuid.uuid4().hex[:12]}"
        self.client.create_stack(
            StackName=self.name, TemplateBody=json.dumps(body), Capabilities=["CAPABILITY_IAM"]
        )
        found = self._finished()
        assert found["StackStatus"] == "CREATE_COMPLETE", found
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in found["Outputs"]}

    def _finished(self) -> dict[str, Any]:
        while True:  # the test's own time limit ends it
            stack: dict[str, Any] = self.client.describe_stacks(StackName=self.name)["Stacks"][0]
            if not stack["StackStatus"].endswith("IN_PROGRESS"):
                return stack
            time.sleep(0.05)

    def resolved(self, kind: str) -> list[dict[str, Any]]:
        """Return the properties of all resources of a kind, with the queue's names put in."""
        text = json.dumps(
            [r["Properties"] for r in self.body["Resources"].values() if r["Type"] == kind]
        )
        text = text.replace(
            '{"Fn::GetAtt": ["Queue", "Arn"]}', json.dumps(self.outputs["QueueArn"])
        )
        text = text.replace('{"Ref": "Queue"}', json.dumps(self.outputs["QueueUrl"]))
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def attributes(self, output: str) -> dict[str, str]:
        """Return the settings of a queue of the stack."""
        found: dict[str, str] = self.server.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs[output], AttributeNames=["All"]
        )["Attributes"]
        return found

    def received(self) -> list[str]:
        """Return the bodies of what has arrived."""
        got = self.server.client("sqs").receive_message(
            QueueUrl=self.outputs["QueueUrl"], MaxNumberOfMessages=10, WaitTimeSeconds=0
        )
        return [message["Body"] for message in got.get("Messages", ())]


def deploy(server: AwsServer, topic: str, *wanted: str, raw: bool = False) -> Stack:
    """Deploy the plan for HRRR with a topic of the emulator."""
    choice = choose(dataset("hrrr", topics=(topic,)), wanted)
    name = f"q-{uuid.uuid4().hex[:12]}"
    return Stack(server, template(plan_queue([choice], queue_name=name, raw_delivery=raw)))


def make_topic(server: AwsServer) -> str:
    """Return a new topic."""
    arn: str = server.client("sns").create_topic(Name=f"New{uuid.uuid4().hex[:12]}")["TopicArn"]
    return arn


def subscribe_by_hand(stack: Stack) -> None:
    """Do what moto's CloudFormation leaves out: subscriptions and the queue's policy."""
    sns, sqs_client = stack.server.client("sns"), stack.server.client("sqs")
    for one in stack.resolved("AWS::SQS::QueuePolicy"):
        for url in one["Queues"]:
            sqs_client.set_queue_attributes(
                QueueUrl=url, Attributes={"Policy": json.dumps(one["PolicyDocument"])}
            )
    for one in stack.resolved("AWS::SNS::Subscription"):
        sns.subscribe(
            TopicArn=one["TopicArn"],
            Protocol=one["Protocol"],
            Endpoint=one["Endpoint"],
            Attributes={
                "RawMessageDelivery": json.dumps(one["RawMessageDelivery"]),
                "FilterPolicyScope": one["FilterPolicyScope"],
                "FilterPolicy": json.dumps(one["FilterPolicy"]),
            },
        )


@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_the_deployed_queues_are_set_as_planned(kind: str, request: Any) -> None:
    """Visibility, redrive, retention of both, encryption, and the outputs of the stack."""
    server: AwsServer = request.getfixturevalue(kind)
    stack = deploy(server, make_topic(server))
    queue, dead = stack.attributes("QueueUrl"), stack.attributes("DeadLetterQueueUrl")
    redrive = json.loads(queue["RedrivePolicy"])
    assert queue["VisibilityTimeout"] == "300"
    assert (redrive["deadLetterTargetArn"], int(redrive["maxReceiveCount"])) == (
        dead["QueueArn"],
        5,
    )
    assert (queue["MessageRetentionPeriod"], dead["MessageRetentionPeriod"]) == (
        "345600",
        "1209600",
    )
    assert queue["QueueArn"] == stack.outputs["QueueArn"]
    role = stack.outputs["WorkerRoleArn"].rpartition("/")[2]
    attached = server.client("iam").list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert [policy["PolicyArn"] for policy in attached] == [stack.outputs["WorkerPolicyArn"]]


def test_a_notification_flows_through_the_filter(moto: AwsServer) -> None:
    """A wanted key arrives in its envelope; another key, and another topic's message, do not."""
    topic, other = make_topic(moto), make_topic(moto)
    stack = deploy(moto, topic, "hrrr.20260601/conus/")
    subscribe_by_hand(stack)
    sns = moto.client("sns")
    wanted = event("hrrr.20260601/conus/hrrr.t00z.wrfsfcf00.grib2")
    sns.publish(TopicArn=topic, Message=event("hrrr.20260601/alaska/hrrr.t00z.wrfsfcf00.ak.grib2"))
    sns.publish(TopicArn=topic, Message=event("gfs.20260601/00/atmos/gfs.t00z.pgrb2.0p25.f000"))
    sns.publish(TopicArn=other, Message=wanted)
    sns.publish(TopicArn=topic, Message=wanted)
    (body,) = [json.loads(text) for text in stack.received()]
    assert (body["Message"], body["TopicArn"]) == (wanted, topic)


def test_the_stack_alone_subscribes_the_queue(ministack: AwsServer) -> None:
    """CloudFormation makes policy and subscription; a message to the topic is in the queue."""
    topic = make_topic(ministack)
    choice = choose(dataset("hrrr", topics=(topic,), prefixes=("",)), ())
    name = f"q-{uuid.uuid4().hex[:12]}"
    stack = Stack(ministack, template(plan_queue([choice], queue_name=name, raw_delivery=True)))
    policy = json.loads(stack.attributes("QueueUrl")["Policy"])
    assert policy["Statement"][0]["Condition"] == {"ArnEquals": {"aws:SourceArn": [topic]}}
    assert policy["Statement"][0]["Resource"] == stack.outputs["QueueArn"]
    ministack.client("sns").publish(TopicArn=topic, Message=event("hrrr.1"))
    assert stack.received() == [event("hrrr.1")]


def test_a_site_of_the_chunk_topic_flows_by_its_attribute(ministack: AwsServer) -> None:
    """The site that was asked for arrives, its neighbour does not."""
    sns = ministack.client("sns")
    topic: str = sns.create_topic(Name="NewNEXRADLevel2ObjectFilterable")["TopicArn"]
    choice = choose(dataset("nexrad-l2", topics=(topic,)), ["KTLX/"])
    name = f"q-{uuid.uuid4().hex[:12]}"
    stack = Stack(ministack, template(plan_queue([choice], queue_name=name, raw_delivery=True)))
    for site in ("KDMX", "KTLX"):
        attribute = {"DataType": "String", "StringValue": site}
        sns.publish(TopicArn=topic, Message=f"of {site}", MessageAttributes={"SiteID": attribute})
    assert stack.received() == ["of KTLX"]
