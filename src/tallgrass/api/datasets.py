"""What is ingested, and what the pipeline would make of a key, a message or a dataset file."""

from http import HTTPStatus
from pathlib import Path as File
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Exact
from tallgrass.api.problems import documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer, require_exact
from tallgrass.datasets.catalogue import as_json_value
from tallgrass.datasets.folder import joined
from tallgrass.datasets.loader import load_with_examples
from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.intake.parse import parse_message
from tallgrass.views.datasets import check_document, chosen_datasets, dataset_line
from tallgrass.views.inspection import inspect_key, message_document
from tallgrass.views.places import telling_of

_NAME_MAX = 200
_URI_MAX = 2100
_FILE_MAX = 500_000

router = APIRouter(tags=["datasets"])

Name = Annotated[str | None, Query(max_length=_NAME_MAX)]


class FileBody(Body):
    """A dataset file."""

    file: Exact = Field(min_length=1, max_length=_FILE_MAX, description="TOML")


class MessageBody(Body):
    """A notification as a queue gives it."""

    message: Exact = Field(max_length=_FILE_MAX)


@router.get(
    "/datasets",
    responses=documented() | documents("All datasets, or those chosen.", datasets=OBJECTS),
    response_class=Response,
)
def list_datasets(
    request: Request, here: Here, _signed: Viewer, bucket: Name = None, topic: Name = None
) -> Response:
    """List datasets: where their objects are, who announces them, whether keys are read."""
    chosen = chosen_datasets(here.catalogue.datasets, bucket=bucket, topic=topic)
    return answer(request, {"datasets": [dataset_line(each) for each in chosen]})


@router.get(
    "/datasets/{dataset}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("A dataset as its file says it.", id={"type": "string"}),
    response_class=Response,
)
def show_dataset(
    request: Request,
    here: Here,
    signed: Viewer,
    dataset: Annotated[str, Path(max_length=_NAME_MAX)],
) -> Response:
    """Show one dataset: its buckets, its keys and its items.

    The file names exact places: if the dataset is masked, an operator's token is needed.
    """
    found = here.catalogue.named(dataset)
    if telling_of(here.policies, found.id).degrees:
        require_exact(request, signed, "dataset_show")
    return answer(request, as_json_value(found))


@router.post(
    "/datasets/check",
    responses=documented(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents("What its own examples gave.", ok={"type": "boolean"}, examples=OBJECTS),
    response_class=Response,
)
def check_dataset(here: Here, _signed: Viewer, body: FileBody) -> Response:
    """Check a dataset file, by itself and beside the other datasets; nothing is kept."""
    name = "the file"
    try:
        dataset, read = load_with_examples(body.file, name)
        is_known = here.catalogue.dataset(dataset.id) is not None
        joined(here.catalogue, {File(name): dataset})
    except ConfigError as error:
        # Not this server's configuration is wrong, but what was sent.
        raise InvalidInput(str(error), code=error.code) from error
    return done(check_document(dataset, read, is_known=is_known))


@router.get(
    "/inspect/key",
    responses=documented()
    | documents("What the key tells, or an `error` and why.", dataset={"type": ["string", "null"]}),
    response_class=Response,
)
def read_key(
    request: Request, here: Here, _signed: Viewer, uri: Annotated[str, Query(max_length=_URI_MAX)]
) -> Response:
    """Say what a key tells: dataset, times, item and unit, or why it is passed over."""
    return answer(request, inspect_key(here.catalogue, uri, here.config.rules.providers))


@router.post(
    "/inspect/message",
    responses=documented(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents(
        "Units, what is ignored, and what is wrong.",
        units=OBJECTS,
        ignored=OBJECTS,
        errors=OBJECTS,
    ),
    response_class=Response,
)
def read_message(here: Here, _signed: Viewer, body: MessageBody) -> Response:
    """Say which units a notification announces; nothing is recorded."""
    found = parse_message(
        body.message.encode(errors="surrogatepass"),
        message_id=None,
        sent_at=here.clock(),
        queue=here.config.text("queue.name"),
        catalogue=here.catalogue,
        providers=here.config.rules.providers,
    )
    return done(message_document(found))
