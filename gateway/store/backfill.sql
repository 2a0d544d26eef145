-- Marking events as processed that the gateway never saw. A batch is one transaction: what a COPY brought
-- into a table of its own becomes claims, and how far that got is recorded with it.

-- name: number
select id, recipe from dedup.routes where name = $1;

-- name: done
-- How far whoever read this source last came, without its end.
select case when ended is null then rows end
  from dedup.backfills
 where route = $1
   and source = $2
 order by id desc
 limit 1;

-- name: begin
insert into dedup.backfills (route, source, rows, who, why)
values ($1, $2, $3, $4, $5)
returning id;

-- name: table
create temporary table marked (
  key uuid not null, first_seen int4 not null, event_id text
) on commit drop;

-- name: mark
-- What is there stays as it is, whatever it is. Sorted, as all who insert claims do: so nobody waits in a
-- circle. The explicit attempt 1 says that nobody saw the body: see is_marked. So the fingerprint is free to
-- say which run it was. A row comes back for each key that was there, without a state where it came after
-- our snapshot.
with added as (
  insert into dedup.claims (key, first_seen, route, state, fingerprint, attempt, event_id)
  select m.key, m.first_seen, $1::int2, 'd', ($2::int8 % 256 - 128)::int4::"char", 1, m.event_id
    from pg_temp.marked m
   order by m.key
  on conflict (key) do nothing
  returning key
), moved as (
  update dedup.backfills b
     set rows   = $3::int8,
         marked = b.marked + (select count(*) from added),
         moved  = now(),
         ended  = case when $4::bool then now() end
   where b.id = $2::int8
)
select m.key, c.state
  from pg_temp.marked m
  left join dedup.claims c on c.key = m.key
 where not exists (select from added a where a.key = m.key);

-- name: there
select c.key, c.state
  from dedup.claims c
 where c.key = any ($1::uuid[]);
