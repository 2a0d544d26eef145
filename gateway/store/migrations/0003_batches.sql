-- Batches: entries that stand for many events. gateway/core/batch_entry.py has the rules.
--
-- Such an entry has a key of its own, which no claim has; its items' claims are found here. A release
-- from before this table delivers such an entry like any other and leaves its items' claims stored:
-- nothing is lost or sent twice.
create table dedup.entry_items (
    key          uuid    primary key,
    entry        uuid    not null,
    fingerprint  "char"  not null,
    event_id     bytea   not null
) with (
    -- They come and go with their entries.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- What an entry stands for: looked up for each one that is leased.
create index entry_items_by_entry on dedup.entry_items (entry);

comment on table  dedup.entry_items is 'The events that entries of batches stand for; an event belongs to the newest entry that was stored for it.';
comment on column dedup.entry_items.key is 'The key of the item''s claim.';
comment on column dedup.entry_items.entry is 'entries.key of the batch.';
comment on column dedup.entry_items.fingerprint is 'Eight bits of a digest of the item''s own bytes.';
comment on column dedup.entry_items.event_id is 'The whole id of the item, UTF-8; a lone surrogate as its three bytes.';
comment on column dedup.entries.key is 'The key of the claim; of a batch, one of its own.';
comment on column dedup.claims.event_id is 'For people, and to tell apart the events of one operation: the first 255 characters of the id of the event that took the claim last; null where ids are not kept.';
