-- The inbox: events that were acknowledged and are still owed to their consumer, each with the whole
-- delivery as it came. gateway/core/inbox.py has the rules.
--
-- While an entry is undelivered, the claim of its event is stored. A claim that was lost takes no
-- entry with it: what was acknowledged is delivered all the same.
create table dedup.entries (
    key          uuid        primary key,
    route        int2        not null,
    state        "char"      not null,
    doubtful     bool        not null,
    attempt      int4        not null,
    fingerprint  "char"      not null,
    token        int8        not null,
    due          timestamptz not null,
    since        timestamptz not null default now(),
    received     timestamptz not null default now(),
    settled      timestamptz,
    why          text,
    event_id     bytea       not null,
    method       text        not null,
    target       text        not null,
    peer         text        not null,
    scheme       text        not null,
    headers      bytea       not null,
    body         bytea       not null,
    constraint entries_state_is_known       check (state in ('p', 'l', 'd', 'x', 'h', 'o')),
    constraint entries_attempts_count       check (attempt >= 0),
    constraint entries_leased_is_an_attempt check (state <> 'l' or attempt >= 1),
    constraint entries_settled_has_a_time   check ((state in ('p', 'l')) = (settled is null))
) with (
    -- Each row is updated twice within a second and deleted days later: as for the claims, one vacuum
    -- for about 2 % of the rows keeps dead versions, and what a look for the due has to step over, few.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- What is due, the oldest or the newest first; the lease's end is the due time of what is leased.
create index entries_due on dedup.entries (route, due) where state in ('p', 'l');
-- What is over: payloads are deleted in this order.
create index entries_over on dedup.entries (route, settled) where state in ('d', 'o');
-- What waits for a person, for the gauges.
create index entries_waiting on dedup.entries (route, settled) where state in ('x', 'h');

comment on table  dedup.entries is 'The inbox: one row per stored event, with the whole delivery.';
comment on column dedup.entries.key is 'The key of the claim.';
comment on column dedup.entries.route is 'routes.id; the entry is sent to that route''s present upstream.';
comment on column dedup.entries.state is 'p pending, l leased, d delivered, x dead, h held, o dropped.';
comment on column dedup.entries.doubtful is 'Some earlier attempt may have had its effect, or the event is older than our memory: forwards are marked.';
comment on column dedup.entries.attempt is 'Number of the latest forward; counted when leased, handed back if nothing was sent.';
comment on column dedup.entries.token is 'Of whoever stored or leased it last.';
comment on column dedup.entries.due is 'When it may be leased; the end of the lease while leased.';
comment on column dedup.entries.since is 'When it was stored, revived or redriven: retry.give_up counts from here.';
comment on column dedup.entries.received is 'When the delivery came that is kept here.';
comment on column dedup.entries.settled is 'When it was delivered, dropped, declared dead or held; keep_payload counts from here.';
comment on column dedup.entries.why is 'What became of the latest attempt, in few words.';
comment on column dedup.entries.event_id is 'The whole id, UTF-8; a lone surrogate as its three bytes.';
comment on column dedup.entries.headers is 'NAME:VALUE lines as they came, each ended by CR LF.';

-- What operators did, to which event, and why.
create table dedup.actions (
    id       int8        generated always as identity primary key,
    at       timestamptz not null default now(),
    who      text        not null,
    action   text        not null,
    why      text,
    key      uuid        not null,
    route    int2        not null,
    attempt  int4
);

create index actions_by_key on dedup.actions (key);

comment on table  dedup.actions is 'Every action of an operator on an event: who, when and why.';
comment on column dedup.actions.attempt is 'The attempt that the operator saw.';
