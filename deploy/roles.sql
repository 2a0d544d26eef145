-- A role that can do all that a running gateway does, and nothing else. Run it once, as the owner of
-- the database, after `dedup-gateway migrate` (or `dedup-gateway migrate --print | psql`), and after
-- each release that brings a migration; it may be run again at any time.
--
--     psql "$OWNER_DSN" -f roles.sql
--     psql "$OWNER_DSN" -c '\password dedup_gateway'
--
-- The gateway itself needs no more than this: give the DSN of this role to `serve`, and that of the
-- owner only to `migrate`.

do $$
begin
    if not exists (select from pg_roles where rolname = 'dedup_gateway') then
        create role dedup_gateway login noinherit;
    end if;
end
$$;

grant usage on schema dedup to dedup_gateway;
-- Claims are deleted when their retention is over.
grant select, insert, update, delete on dedup.claims to dedup_gateway;
grant select, insert, update, delete on dedup.entries, dedup.entry_items to dedup_gateway;
grant select, insert, update, delete on dedup.observations to dedup_gateway;
grant select, insert on dedup.routes, dedup.actions to dedup_gateway;
grant update (recipe, since, retention, place, born) on dedup.routes to dedup_gateway;
grant select, insert, delete on dedup.canaries to dedup_gateway;
grant select, insert, delete, update (ended, cut_off, purged, unresolved) on dedup.purges to dedup_gateway;
grant select, insert on dedup.retentions to dedup_gateway;
grant select, insert, update on dedup.jobs to dedup_gateway;
grant select, insert, update on dedup.backfills to dedup_gateway;
-- `audit` and `backfill` copy lists of ids into tables that last for one transaction.
do $$
begin
    execute format('grant temporary on database %I to dedup_gateway', current_database());
end
$$;
-- A kept reply goes when `claims release` frees its event.
grant select, insert, delete on dedup.replies to dedup_gateway;
grant select on dedup.migrations to dedup_gateway;

-- A claim that was acknowledged must be on the disk.
alter role dedup_gateway set synchronous_commit = 'on';
-- Backstops. The gateway gives a statement 1.2 s and bounds each wait for a lock by itself; what
-- outlives that belongs to a process that died or a network that broke.
alter role dedup_gateway set statement_timeout = '3s';
alter role dedup_gateway set lock_timeout = '1s';
alter role dedup_gateway set idle_in_transaction_session_timeout = '5s';
alter role dedup_gateway set tcp_keepalives_idle = 10;
alter role dedup_gateway set tcp_keepalives_interval = 5;
alter role dedup_gateway set tcp_keepalives_count = 3;
-- Every statement names its schema; nothing else is to be found by accident.
alter role dedup_gateway set search_path = '';
