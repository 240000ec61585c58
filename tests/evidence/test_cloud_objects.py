"""Objects in a cloud: the same answers as from a folder, each cloud asked at its own host."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import AzureStore, GCSStore

from tallgrass.bootstrap.workers import open_reader
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.error_codes import lookup
from tallgrass.errors import ConfigError
from tallgrass.evidence.cloud_objects import CloudObjects, Patience, standard_s3_credentials
from tallgrass.evidence.object_store import LocalObjects, ObjectBytes
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence, ReadFailure
from tests.evidence.cloud_scene import CONTENT, HASTE, TAIL, md5, s3
from tests.evidence.samples import grib2, hdf5, nexrad
from tests.support.builders import unit
from tests.support.odd_store import Answer, OddStore, Request, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.aws import AwsServer


@pytest.mark.parametrize("size", [0, 1, 4097, 65_535, 65_536, 65_537, 66_559, 66_561, 5_000_000])
def test_head_tail_size_and_etag(
    ministack: AwsServer, put: Callable[[str, bytes], str], size: int
) -> None:
    """The first 4,096 and the last bytes, the size and S3's own etag without quotes are read."""
    content = random.Random(size).randbytes(size)
    uri = put("a/key", content)
    assert s3(ministack).read(uri, TAIL) == ObjectBytes(
        head=content[:4096], tail=content[-1024:], size=size, etag=md5(content)
    )


@pytest.mark.parametrize("tail_bytes", [1024, 128 * 1024])
def test_a_tail_that_begins_in_the_first_part(
    ministack: AwsServer, put: Callable[[str, bytes], str], tail_bytes: int
) -> None:
    """A tail that overlaps what was read first is whole, though only the rest is read again."""
    content = CONTENT[:100_000]
    answer = s3(ministack).read(put("key", content), tail_bytes)
    assert isinstance(answer, ObjectBytes)
    assert answer.tail == content[-tail_bytes:]


def test_an_object_uploaded_in_parts_has_the_stores_etag(ministack: AwsServer, bucket: str) -> None:
    """The etag is not computed: of a multipart upload it is a hash of hashes, as announced."""
    client = ministack.client("s3")
    pieces = [os.urandom(5 * 1024 * 1024), b"end"]
    upload = client.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    done = []
    for number, piece in enumerate(pieces, start=1):
        tag = client.upload_part(
            Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=piece
        )["ETag"]
        done.append({"ETag": tag, "PartNumber": number})
    client.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": done}
    )
    digests = b"".join(hashlib.md5(piece).digest() for piece in pieces)  # noqa: S324
    answer = s3(ministack).read(f"s3://{bucket}/parts", TAIL)
    assert isinstance(answer, ObjectBytes)
    assert answer.etag == f"{md5(digests)}-2"
    assert (answer.size, answer.tail[-3:]) == (5 * 1024 * 1024 + 3, b"end")


@pytest.mark.parametrize(
    "key",
    ["a b", "a+b", "a%20b", "a%2Fb", "%2e%2e", "T15:00/x", "ü/☃", "x#y", "t?u=v&w", "a\\b", "..x"],
)
def test_a_key_is_a_name_and_nothing_else(
    ministack: AwsServer, put: Callable[[str, bytes], str], key: str
) -> None:
    """No character of a key is decoded or has a meaning."""
    answer = s3(ministack).read(put(key, key.encode()), TAIL)
    assert isinstance(answer, ObjectBytes)
    assert answer.head == key.encode()


@pytest.mark.parametrize("key", ["a/", "/a", "a//b", "./a", "a/../b", ".."])
def test_a_key_that_cannot_be_asked_for_is_never_another(
    ministack: AwsServer, put: Callable[[str, bytes], str], bucket: str, key: str
) -> None:
    """The client cuts slashes off and refuses dots: such a key is told, not read as a neighbour."""
    put("a", b"neighbour")
    put("b", b"neighbour")
    answer = s3(ministack).read(f"s3://{bucket}/{key}", TAIL)
    assert isinstance(answer, ReadFailure)
    assert (answer.code, answer.may_come) == ("missing_object", False)
    assert f"s3://{bucket}/{key}" in answer.message


def test_a_missing_object_and_a_missing_bucket(ministack: AwsServer, bucket: str) -> None:
    """What is not there has the code for it, which is tried again: a notification may be early."""
    for uri in (f"s3://{bucket}/nothing", "s3://no-such-bucket-at-all/key"):
        answer = s3(ministack).read(uri, TAIL)
        assert isinstance(answer, ReadFailure)
        assert (answer.code, answer.may_come) == ("missing_object", True)
        assert uri in answer.message
    assert lookup("missing_object").retried


@pytest.mark.parametrize("uri", ["ftp://host/key", "https://host/key", "file:///etc/passwd", ""])
def test_no_other_place_is_asked(uri: str) -> None:
    """Only s3, gs and az are clouds."""
    answer = CloudObjects().read(uri, TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "missing_object"


def test_evidence_is_that_of_a_folder(
    ministack: AwsServer, put: Callable[[str, bytes], str], bucket: str, tmp_path: Path
) -> None:
    """Evidence has the same bytes, whether an object was read in a cloud or in a folder."""
    files = {
        FileFormat.NETCDF4: hdf5(values=20_000),
        FileFormat.NEXRAD_LEVEL2: nexrad(os.urandom(90_000), os.urandom(90_000)),
        FileFormat.GRIB2: grib2(),
    }
    contents = [*files.values(), *(each[:-7] for each in files.values()), b"", b"neither"]
    formats = [*files, *files, *files]
    made = []
    for number, content in enumerate(contents):
        uri = put(f"T15:00/{number} ü", content)
        path = tmp_path / uri.removeprefix("s3://")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made.append(unit(number, dataset=f"d{number}", object_uri=uri))
    bodies = []
    for objects in (s3(ministack), LocalObjects(tmp_path)):
        reader = ObjectEvidenceReader(
            objects, lambda each: formats[int(each.dataset[1:])], threads=4
        )
        answers = reader.read(made)
        reader.close()
        bodies.append([each.to_bytes() for each in answers if isinstance(each, Evidence)])
    assert len(bodies[0]) == 8
    assert bodies[0] == bodies[1]
    assert md5(contents[0]).encode() in bodies[0][0]


def test_a_batch_is_read_from_where_the_settings_say(
    ministack: AwsServer, put: Callable[[str, bytes], str]
) -> None:
    """`objects.url = cloud` reads a batch in parallel, each answer in its place; no credentials."""
    made = [
        unit(number, object_uri=put(f"goes-glm/{number}", hdf5(values=number)))
        for number in range(1, 40)
    ]
    config = load_config(
        environment={}, flags={"objects.url": "cloud", "objects.endpoint_url": ministack.url}
    )
    reader = open_reader(config, default_catalogue())
    answers = reader.read(made)
    assert isinstance(reader, ObjectEvidenceReader)
    reader.close()
    assert [each.etag for each in answers if isinstance(each, Evidence)] == [
        md5(hdf5(values=number)) for number in range(1, 40)
    ]


@pytest.fixture
def asked_hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let every request go to a proxy on loopback, which refuses it and notes the host."""
    hosts: list[str] = []

    def script(_: int, request: Request) -> Answer:
        hosts.append(f"{request.method} {request.path}")
        return Answer(status=502)

    with OddStore(script) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        yield hosts


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("s3://noaa-goes19/key", "noaa-goes19.s3.amazonaws.com"),
        ("s3://noaa.dotted/key", "s3.amazonaws.com"),
        ("gs://gcp-public-data-goes-16/key", "storage.googleapis.com"),
        ("az://goeseuwest.noaa-goes16/key", "goeseuwest.blob.core.windows.net"),
    ],
)
def test_each_cloud_is_asked_at_its_own_host(
    monkeypatch: pytest.MonkeyPatch, asked_hosts: list[str], uri: str, host: str
) -> None:
    """The public host of the bucket, whatever region or endpoint the environment names."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere.invalid")
    answer = CloudObjects(patience=HASTE).read(uri, TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "transient_network_error"
    assert set(asked_hosts) == {f"CONNECT {host}:443"}


def test_the_configured_endpoint_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`objects.endpoint_url` is asked, path style, though AWS_ENDPOINT_URL_S3 names another."""
    with OddStore(lambda _, request: part(b"content", request, "one")) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        answer = CloudObjects(endpoint_url=f"{store.url}/", patience=HASTE).read(
            "s3://noaa.dotted/a/key", TAIL
        )
    assert isinstance(answer, ObjectBytes)
    assert [each.path for each in store.requests] == ["/noaa.dotted/a/key"]
    assert "authorization" not in store.requests[0].headers


@pytest.mark.usefixtures("aws_environment")
def test_signed_reads_use_the_credentials_of_the_standard_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`objects.signed` signs with what boto3 finds, for the region that the environment names."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with OddStore(lambda _, request: part(b"content", request, "one")) as store:
        config = load_config(
            environment={"TALLGRASS_OBJECTS_SIGNED": "true"},
            flags={"objects.url": "cloud", "objects.endpoint_url": store.url},
        )
        reader = open_reader(config, default_catalogue())
        (answer,) = reader.read([unit(0)])
    assert isinstance(answer, Evidence)
    (request,) = store.requests
    signature = request.headers["authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=testing/")
    assert "/eu-west-1/s3/aws4_request" in signature


@pytest.mark.usefixtures("aws_environment")
def test_signed_reads_without_credentials_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting that cannot work is told before a unit fails by it."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match=r"objects\.signed"):
        standard_s3_credentials()


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_other_clouds_are_read_by_the_same_requests(scheme: str) -> None:
    """Google's and Azure's answers are taken as S3's: two ranges, one version, a plain etag."""
    with OddStore(lambda _, request: part(CONTENT, request, "0x8DB369315269B01")) as odd:
        options: Any = {"skip_signature": True, "client_options": {"allow_http": True}}
        store: Any = (
            GCSStore("bucket", base_url=odd.url, **options)
            if scheme == "gs"
            else AzureStore("container", account_name="account", endpoint=odd.url, **options)
        )
        objects = CloudObjects(patience=HASTE)
        objects._stores[scheme, "account.container"] = store
        answer = objects.read(f"{scheme}://account.container/a b+T15:00", TAIL)
    assert answer == ObjectBytes(
        head=CONTENT[:4096], tail=CONTENT[-1024:], size=len(CONTENT), etag="0x8DB369315269B01"
    )
    assert [each.headers["range"] for each in odd.requests] == [
        "bytes=0-65535",
        "bytes=198976-199999",
    ]
    assert odd.requests[1].headers["if-match"] == '"0x8DB369315269B01"'


def test_a_bucket_is_opened_once() -> None:
    """Stores, with their connections, are kept by bucket; threads that race share one."""
    objects = CloudObjects()
    found: list[object] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait(30)
        found.append(objects.store("s3", "bucket"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len({id(each) for each in found}) == 1
    assert objects.store("gs", "bucket") is not found[0]


def test_by_default_a_read_ends_within_a_messages_hidden_time() -> None:
    """120 s for a batch's starts and two requests of 35 s each are less than 300 s."""
    patience = Patience()
    longest = 2 * (patience.repeat_within_s + patience.request_s)
    assert longest == 70
    assert 120 + longest < 300
