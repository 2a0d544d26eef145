-- Retention: how long each route's claims are kept, who shortened that, what was purged, and canaries,
-- which tell whether claims last as long. gateway/core/purging.py and canary.py have the rules.
--
-- Nothing is indexed for it: an index on states or times would make settling write twice as much, and
-- the purger walks the table by its pages.

alter table dedup.routes
    -- Null until a release that knows it has registered the route.
    add column retention int8,
    -- Null until its first canary was planted: nothing tells of the time before.
    add column born timestamptz,
    add column place text;

comment on column dedup.routes.retention is 'Seconds that claims are kept after they were settled; as it was registered last.';
comment on column dedup.routes.place is 'Its hosts and path, as they were registered last.';
comment on column dedup.routes.born is 'Since when canaries tell how far the memory of the route reaches.';

create table dedup.retentions (
    id      int8        generated always as identity primary key,
    at      timestamptz not null default now(),
    route   int2        not null,
    was     int8,
    "is"    int8        not null,
    who     text        not null,
    source  text        not null
);

create index retentions_by_route on dedup.retentions (route, id);

comment on table  dedup.retentions is 'Each change of a route''s retention.';
comment on column dedup.retentions.was is 'Seconds; null at first.';
comment on column dedup.retentions.who is 'The process that registered it: its host and number.';
comment on column dedup.retentions.source is 'What it was derived from.';

create table dedup.canaries (
    route    int2  not null,
    planted  int4  not null,
    key      uuid  not null,
    primary key (route, planted)
);

comment on table  dedup.canaries is 'Claims that stand for no event. One that is missing was deleted, and others like it.';
comment on column dedup.canaries.planted is 'Unix seconds, this server''s clock: first_seen of the claim.';
comment on column dedup.canaries.key is 'Of its claim: random, as no event has it.';

create table dedup.jobs (
    name   text        primary key,
    token  int8,
    until  timestamptz not null,
    ended  timestamptz
);

insert into dedup.jobs (name, until) values ('purge', now());

comment on table  dedup.jobs is 'What one process at a time does for all.';
comment on column dedup.jobs.token is 'Whoever is at it; null between two runs.';
comment on column dedup.jobs.until is 'The end of that one''s lease; between two runs, when the next is due.';
comment on column dedup.jobs.ended is 'When a run was done last.';

create table dedup.purges (
    id          int8        generated always as identity primary key,
    run         int8,
    began       timestamptz not null default now(),
    ended       timestamptz,
    route       int2,
    cut_off     timestamptz,
    purged      int8        not null default 0,
    unresolved  int8        not null default 0,
    who         text        not null,
    unique (run, route)
);

create index purges_by_route on dedup.purges (route, id);

comment on table  dedup.purges is 'Each run of the purger: one row of its own, and one for each route that lost claims.';
comment on column dedup.purges.run is 'Of a route''s row: the id of the run''s own one, whose route and run are null.';
comment on column dedup.purges.ended is 'Null of a run that is under way, or was broken off; of a route''s row, when it lost its last ones.';
comment on column dedup.purges.cut_off is 'Claims settled before it were purged; released ones without doubt need not be as old.';
comment on column dedup.purges.unresolved is 'How many of those nobody had ever brought to a known end.';
comment on column dedup.purges.who is 'The process: its host and number.';

create table dedup.backfills (
    id      int8        generated always as identity primary key,
    route   int2        not null,
    source  text        not null,
    began   timestamptz not null default now(),
    moved   timestamptz not null default now(),
    rows    int8        not null default 0,
    marked  int8        not null default 0,
    ended   timestamptz,
    who     text        not null,
    why     text        not null
);

create index backfills_by_source on dedup.backfills (route, source, id);

comment on table  dedup.backfills is 'Marking of ids as already processed: how far each source was read.';
comment on column dedup.backfills.source is 'A digest that tells files and queries apart.';
comment on column dedup.backfills.rows is 'Rows of the source that are done.';
comment on column dedup.backfills.marked is 'Claims that were made of those.';
comment on column dedup.claims.fingerprint is 'Eight bits of the body''s digest, to count bodies that change under one id; of what a backfill marked, 128 less than the last eight bits of dedup.backfills.id.';
comment on column dedup.claims.attempt is 'Number of the latest forward. Once completed null means 1, and 1 means that a backfill marked the event: nobody saw its body.';
