-- What was noted of routes in `observe`, to judge their keys by. gateway/core/observing.py has the words.
create table dedup.observations (
    series    int8        not null,
    route     int2        not null,
    recipe    uuid        not null,
    what      text        not null,
    detail    text        not null,
    since     timestamptz not null default now(),
    until     timestamptz not null default now(),
    number    int8        not null,
    greatest  float8      not null,
    example   text,
    primary key (series, route, recipe, what, detail),
    constraint observations_count            check (number >= 1),
    constraint observations_example_is_short check (char_length(example) <= 255)
);

-- They are read and deleted by this, and it never changes, so adding to a row stays a HOT update.
create index observations_since on dedup.observations (since);

comment on table  dedup.observations is 'Totals of what gateways noted of routes in observe, for `report`.';
comment on column dedup.observations.series is 'One process''s notes of about an hour; nobody else writes them.';
comment on column dedup.observations.route is 'routes.id.';
comment on column dedup.observations.recipe is 'Changes when the key, or what its fingerprint leaves out, does: notes under another one say nothing about this one.';
comment on column dedup.observations.what is 'What is counted.';
comment on column dedup.observations.detail is 'By what it is told apart: a location, a shape, a flaw; empty for nothing.';
comment on column dedup.observations.since is 'When it was stored first; within seconds of when it was noted.';
comment on column dedup.observations.until is 'When it was stored last.';
comment on column dedup.observations.number is 'The total of the series, so storing it twice is storing it once.';
comment on column dedup.observations.greatest is 'Seconds: of duplicates the greatest age, else 0.';
comment on column dedup.observations.example is 'For people: the first 255 characters of the latest id; null where ids are not kept.';
