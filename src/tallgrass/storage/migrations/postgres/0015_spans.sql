-- What the items of a collection span and share. Each commit notes it for its own items, a row for each
-- collection; now and then the notes are gathered into one row, from which the collection is renewed.
-- Units never wait for each other there.

CREATE TABLE stac_spans (
  span_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  collection_id  text COLLATE "C" NOT NULL CHECK (collection_id <> ''),
  gathered       boolean NOT NULL,
  span           text NOT NULL
);
CREATE UNIQUE INDEX stac_spans_gathered ON stac_spans (collection_id) WHERE gathered;
