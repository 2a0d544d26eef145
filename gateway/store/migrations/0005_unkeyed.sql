-- Entries of batches that carry events without an id, too. Those have no claims that could be completed
-- elsewhere, so such an entry is never over before it is delivered. A release from before this column
-- may close one when all of its items are.
alter table dedup.entries add column unkeyed bool not null default false;

comment on column dedup.entries.unkeyed is 'Of a batch: it carries events without an id beside its items.';
