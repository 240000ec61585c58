-- What the items of a collection span and share. Each commit notes it for its own items, a row for each
-- collection; now and then the notes are gathered into one row, from which the collection is renewed.
-- Units never wait for each other there.

CREATE TABLE stac_spans (
  span_id        INTEGER NOT NULL PRIMARY KEY,
  collection_id  TEXT    NOT NULL CHECK (collection_id <> ''),
  gathered       INTEGER NOT NULL CHECK (gathered = 0 OR gathered = 1),
  span           TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX stac_spans_gathered ON stac_spans (collection_id) WHERE gathered = 1;
