-- The memory itself: who took which event, and how that ended. gateway/core/claim.py has the rules.
--
-- A completed row needs key, first_seen, route, state, fingerprint (24 bytes without padding) and the
-- id; what only a live claim needs comes after them and is null once completed, so that it costs
-- nothing. Nothing but the key is indexed: settling must stay a HOT update.
create table dedup.claims (
    key          uuid        primary key,
    first_seen   int4        not null,
    route        int2        not null,
    state        "char"      not null,
    fingerprint  "char"      not null,
    token        int8,
    until        timestamptz,
    attempt      int4,
    event_id     text,
    constraint claims_state_is_known      check (state in ('c', 'C', 'r', 'R', 's', 'S', 'd', 'D')),
    constraint claims_held_by_a_token     check ((state in ('c', 'C')) = (token is not null)),
    constraint claims_held_under_a_lease  check (state not in ('c', 'C') or until is not null),
    constraint claims_attempts_count      check (attempt >= 1),
    constraint claims_open_has_an_attempt check (attempt is not null or state in ('d', 'D')),
    constraint claims_id_is_short         check (char_length(event_id) <= 255)
) with (
    -- Every row is updated once, soon after it was inserted and mostly on the page it was born on.
    -- One vacuum for about 2 % of the rows keeps dead versions from adding up (100 bytes a claim
    -- where it keeps up, 159 without); spare room on the pages (fillfactor) only adds to that.
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

comment on table  dedup.claims is 'One row per event key: who may forward it, and how that ended.';
comment on column dedup.claims.key is '16 bytes of BLAKE2b over the length-prefixed scope and id.';
comment on column dedup.claims.first_seen is 'Unix seconds, this server''s clock.';
comment on column dedup.claims.route is 'routes.id of the first delivery.';
comment on column dedup.claims.state is 'c claimed, r released, s stored, d completed; a capital: doubtful, some earlier attempt may have had its effect.';
comment on column dedup.claims.fingerprint is 'Eight bits of the body''s digest, to count bodies that change under one id.';
comment on column dedup.claims.token is 'The present holder''s secret; null unless claimed.';
comment on column dedup.claims.until is 'While claimed: the end of the lease. Once settled: null, or the time of settling where that was more than an hour after first_seen.';
comment on column dedup.claims.attempt is 'Number of the latest forward; null means 1 once completed.';
comment on column dedup.claims.event_id is 'For people: the first 255 characters of the id; null where ids are not kept.';

-- Routes by a short number, and since when each is remembered under which recipe.
create table dedup.routes (
    id      int2        primary key,
    name    text        not null unique,
    recipe  bytea       not null,
    since   timestamptz not null default now()
);

comment on table  dedup.routes is 'Every route that ever claimed. Rows stay: claims point here.';
comment on column dedup.routes.recipe is '16 bytes that change when the recipe of the route''s keys does.';

-- First replies, for routes that repeat them to duplicates.
create table dedup.replies (
    key           uuid   primary key,
    kept          int4   not null,
    status        int2   not null,
    content_type  bytea,
    body          bytea  not null,
    constraint replies_are_short check (octet_length(body) <= 16384)
);

comment on table  dedup.replies is 'What the first delivery of an event got, for routes with duplicate_reply: replay.';
comment on column dedup.replies.kept is 'Unix seconds, this server''s clock.';
