-- What operators ask and do. gateway/core/operating.py says what it means. None of this is on the path
-- of a delivery: each runs in a transaction of its own that bounds its time and its waits for locks.
-- What changes an event records who did it in the same statement.

-- name: start
select r.name, r.id, extract(epoch from now())::float8 as now
  from (select) as once
  left join dedup.routes r on true;

-- name: known
-- All about these events. An event that came with a batch has its entry there; should it have one of
-- its own as well, what is undelivered comes first, then the newest.
select a.key, extract(epoch from now())::float8 as now,
       c.state, c.attempt, c.first_seen, c.fingerprint, c.token,
       extract(epoch from c.until)::float8 as until, c.event_id, cr.name as route,
       exists (select from dedup.replies r where r.key = a.key) as has_reply,
       i.event_id as item_id, e.key as entry_key, b.items, b.completed,
       e.state as entry_state, e.doubtful as entry_doubtful, e.attempt as entry_attempt,
       e.token as entry_token, e.unkeyed, e.fingerprint as entry_fingerprint, er.name as entry_route,
       extract(epoch from e.since)::float8 as since, extract(epoch from e.due)::float8 as due,
       extract(epoch from e.received)::float8 as received,
       extract(epoch from e.settled)::float8 as settled,
       e.why, e.event_id as entry_event_id, e.method, e.target, e.peer, e.scheme,
       octet_length(e.headers) as headers_size, octet_length(e.body) as body_size
  from unnest($1::uuid[]) with ordinality as a(key, n)
  left join dedup.claims  c  on c.key = a.key
  left join dedup.routes  cr on cr.id = c.route
  left join dedup.entry_items i on i.key = a.key
  left join lateral (
    select o.*
      from dedup.entries o
     where o.key in (a.key, i.entry)
     order by o.state in ('p', 'l', 'x', 'h') desc, o.received desc
     limit 1) as e on true
  left join dedup.routes  er on er.id = e.route
 cross join lateral (
    select count(*)::int4 as items,
           count(*) filter (where (
             select d.state in ('d', 'D') from dedup.claims d where d.key = p.key))::int4 as completed
      from dedup.entry_items p
     where p.entry = e.key) as b
 order by a.n;

-- name: items
-- What an entry of a batch stands for.
select i.key, i.event_id, c.state
  from dedup.entry_items i
  left join dedup.claims c on c.key = i.key
 where i.entry = $1
 order by i.event_id, i.key;

-- name: find
-- The claims of a route that keep this id. There is no index for that: who asks has time.
select c.key
  from dedup.claims c
 where c.route = $1
   and c.event_id = $2
 order by c.first_seen
 limit $3;

-- name: actions
-- What operators did about these events; a backfill's mark among that, while its claim is as it made it.
-- Of its number the claim has the last eight bits: of several that come into question, the latest ones.
select f.at, f.who, f.action, f.why, f.attempt
  from (select extract(epoch from a.at)::float8 as at, a.who, a.action, a.why, a.attempt, a.id
          from dedup.actions a
         where a.key = any ($1::uuid[])
         union all
        select extract(epoch from b.moved)::float8, b.who, 'backfill', b.why, null, 0
          from dedup.claims c
          join dedup.backfills b on b.route = c.route
         where c.key = any ($1)
           and c.attempt = 1
           and c.state in ('d', 'D')
           and (b.id % 256 - 128)::int4 = c.fingerprint::int4
           and b.marked > 0
           and b.moved >= to_timestamp(c.first_seen)) as f
 order by f.at, f.id;

-- name: payload
select headers, body
  from dedup.entries
 where key = $1;

-- name: count
-- Entries of these routes (null: of all) in these states, received before a time, by how their latest
-- attempt ended.
select e.route, e.state, count(*)::int8 as entries,
       extract(epoch from min(e.received))::float8 as oldest
  from dedup.entries e
 where ($1::int2[] is null or e.route = any ($1))
   and e.state = any ($2::"char"[])
   and e.received <= to_timestamp($3::float8)
   and ($4::text is null or starts_with(e.why, $4))
 group by e.route, e.state
 order by e.route, e.state;

-- name: oldest
-- The same ones, in the order in which they came.
select e.key
  from dedup.entries e
 where ($1::int2[] is null or e.route = any ($1))
   and e.state = any ($2::"char"[])
   and e.received <= to_timestamp($3::float8)
   and ($4::text is null or starts_with(e.why, $4))
 order by e.received, e.key
 limit $5;

-- name: pick
-- The same ones, page by page: nothing that is done to a page brings it up again.
select e.key, e.state, e.attempt
  from dedup.entries e
 where ($1::int2[] is null or e.route = any ($1))
   and e.state = any ($2::"char"[])
   and e.received <= to_timestamp($3::float8)
   and ($4::text is null or starts_with(e.why, $4))
   and e.key > $5
 order by e.key
 limit $6;

-- name: release
-- Fenced on the attempt that was seen. The reply that was kept goes too: a replay of it would hide
-- what the consumer says to the delivery that now goes through.
with freed as (
  update dedup.claims c
     set state   = 'R',
         attempt = coalesce(c.attempt, 1),
         until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end
   where c.key = $1
     and c.state in ('d', 'D')
     and coalesce(c.attempt, 1) = $2::int4
     and not exists (
       select from dedup.entries e where e.key = c.key and e.state in ('p', 'l', 'x', 'h'))
     and not exists (
       select from dedup.entry_items i join dedup.entries e on e.key = i.entry
        where i.key = c.key and e.state in ('p', 'l', 'x', 'h'))
  returning c.key, c.route, c.attempt
), forgotten as (
  delete from dedup.replies r
   using freed f
   where r.key = f.key
), noted as (
  insert into dedup.actions (who, action, why, key, route, attempt)
  select $3, 'release', $4, f.key, f.route, f.attempt
    from freed f
)
select key from freed;

-- name: redrive
-- Fenced on state and attempt. The conditions stand on the target row, so they are checked again after
-- a wait for a worker that had it locked.
with asked as materialized (
  select a.*
    from unnest($1::uuid[], $2::"char"[], $3::int4[]) as a(key, state, attempt)
), driven as (
  update dedup.entries e
     set state    = 'p',
         doubtful = e.doubtful or e.state = 'l',
         due      = now(),
         since    = now(),
         settled  = null
    from asked a
   where e.key = a.key
     and e.state = a.state
     and e.attempt = a.attempt
     and (e.state in ('p', 'x', 'h') or (e.state = 'l' and e.due < now()))
     and (e.unkeyed or not coalesce(
       (select bool_and(coalesce(c.state in ('d', 'D'), false))
          from dedup.entry_items i left join dedup.claims c on c.key = i.key where i.entry = e.key),
       (select c.state in ('d', 'D') from dedup.claims c where c.key = e.key),
       false))
  returning e.key, e.route, e.attempt
), noted as (
  insert into dedup.actions (who, action, why, key, route, attempt)
  select $4, 'redrive', $5, d.key, d.route, d.attempt
    from driven d
   order by d.key
)
select key from driven;

-- name: close
-- Drop and complete: the entry ends as $4, its claim is completed, or made anew where it was lost; of a
-- batch, those of all its items. Claims are locked before entries, as by everybody else who takes both.
with asked as materialized (
  select a.*
    from unnest($1::uuid[], $2::"char"[], $3::int4[]) as a(key, state, attempt)
), meant as materialized (
  select i.entry, i.key, i.fingerprint
    from asked a
    join dedup.entry_items i on i.entry = a.key
   union all
  select a.key, a.key, null
    from asked a
   where not exists (select from dedup.entry_items i where i.entry = a.key)
), locked as materialized (
  select c.key
    from meant m
    join dedup.claims c on c.key = m.key
   order by c.key
     for update of c
), closed as (
  update dedup.entries e
     set state    = $4::"char",
         doubtful = e.doubtful or e.state = 'l',
         settled  = now(),
         why      = case when $4::"char" = 'o' then e.why end
    from asked a
   where e.key = a.key
     and (select count(*) from locked) >= 0
     and e.state = a.state
     and e.attempt = a.attempt
     and (e.state in ('p', 'x', 'h') or (e.state = 'l' and e.due < now()))
  returning e.key, e.route, e.attempt, e.doubtful, e.fingerprint
), completed as (
  insert into dedup.claims as c (key, first_seen, route, state, fingerprint, attempt)
  select distinct on (m.key) m.key, floor(extract(epoch from now()))::int4, d.route,
         (case when d.doubtful then 'D' else 'd' end)::"char", coalesce(m.fingerprint, d.fingerprint),
         nullif(greatest(d.attempt, 1), 1)
    from closed d
    join meant m on m.entry = d.key
   order by m.key, d.attempt desc
  on conflict (key) do update
     set state   = (case when c.state in ('c', 'r', 's') and excluded.state = 'd' then 'd'
                         else 'D' end)::"char",
         attempt = excluded.attempt,
         token   = null,
         until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end
   where c.state not in ('d', 'D')
), noted as (
  insert into dedup.actions (who, action, why, key, route, attempt)
  select $5, $6, $7, d.key, d.route, d.attempt
    from closed d
   order by d.key
)
select key from closed;
