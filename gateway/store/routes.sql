-- name: remember
-- Numbers are given out by hand: a sequence would burn one per start and name, and an int2 has
-- only 32,767. Two that start together may want the same number; the loser asks again.
insert into dedup.routes (id, name, recipe)
select (select coalesce(max(id), 0) from dedup.routes) + row_number() over (order by a.name),
       a.name, a.recipe
  from unnest($1::text[], $2::bytea[]) as a(name, recipe)
 where not exists (select from dedup.routes r where r.name = a.name)
on conflict do nothing;

-- name: known
select name, id from dedup.routes where name = any($1::text[]);

-- name: health
-- What no delivery can do without is asked for beforehand. A table that is not there lacks nothing: the
-- version says so.
select (select coalesce(max(version), 0) from dedup.migrations) as version,
       pg_is_in_recovery() or current_setting('transaction_read_only')::bool as read_only,
       (select string_agg(p.name || ' on dedup.' || t.name, ', ')
          from (values ('claims'), ('entries'), ('entry_items')) as t(name),
               (values ('select'), ('insert'), ('update')) as p(name)
         where not has_table_privilege(to_regclass('dedup.' || t.name), p.name)) as lacks;
