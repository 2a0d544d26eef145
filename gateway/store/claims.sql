-- The claims table's statements. gateway/core/claim.py says what they mean.
--
-- Each is one implicit transaction, keyed by the claim key alone: no FOR UPDATE, no SKIP LOCKED, no
-- volatile function in an UPDATE, so that the table can be distributed by its key. `now()` is the
-- start of the statement. The conditions of an UPDATE stand on the target row itself: Postgres
-- checks them again after it waited for the row's lock, which is what fences a late holder.
--
-- `set_config(…, true)` bounds the wait for locks in this transaction only, without a trip of its
-- own: session settings would leak to strangers behind a pooler. It stands in a materialized part
-- that everything else reads, so it runs before any lock is asked for.

-- name: arrive
-- The one trip of first deliveries and of duplicates. A duplicate writes nothing: no WAL, no
-- transaction id. A row that is neither won nor seen was lost to one younger than our snapshot.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $7::text, true)) as bounded,
         unnest($1::uuid[], $2::int2[], $3::int8[], $4::float8[], $5::"char"[], $6::text[])
           with ordinality as a(key, route, token, lease, fingerprint, event_id, n)
), seen as materialized (
  select c.key, c.state, c.attempt, c.token, c.fingerprint, c.first_seen,
         c.state in ('r', 'R') or (c.state in ('c', 'C') and c.until < now()) as open,
         -- Another event's, of the same operation.
         case when c.event_id <> a.event_id then c.event_id end as other_id,
         -- Not `exists`: of that Postgres may make a table of all dead entries first.
         case when c.state in ('s', 'S') then
           (select e.state = 'x' from dedup.entries e where e.key = c.key) is true
           or (select e.state = 'x' from dedup.entry_items i join dedup.entries e on e.key = i.entry
                where i.key = c.key) is true
         end as dead
    from asked a
    join dedup.claims c on c.key = a.key
), won as (
  insert into dedup.claims (key, first_seen, route, state, fingerprint, token, until, attempt, event_id)
  select a.key, floor(extract(epoch from now()))::int4, a.route, 'c', a.fingerprint,
         a.token, now() + a.lease * interval '1 second', 1, a.event_id
    from asked a
   where not exists (select from seen s where s.key = a.key)
   order by a.key
  on conflict (key) do nothing
  returning key
)
select w.key is not null as first, s.open, s.state, s.attempt, s.token, s.fingerprint, s.first_seen,
       extract(epoch from now())::float8 as now, s.dead, s.other_id
  from asked a
  left join won  w on w.key = a.key
  left join seen s on s.key = a.key
 order by a.n;

-- name: take_over
-- Fenced on the attempt and the state that arrive saw: a delayed copy of this statement changes
-- nothing, and the state that comes back says whether a lease had lapsed (lapsed is doubt).
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $8::text, true)) as bounded,
         unnest($1::uuid[], $2::int4[], $3::"char"[], $4::int8[], $5::float8[], $6::"char"[], $7::text[])
           with ordinality as a(key, attempt, state, token, lease, fingerprint, event_id, n)
)
update dedup.claims c
   set state       = (case c.state when 'r' then 'c' else 'C' end)::"char",
       attempt     = c.attempt + 1,
       token       = a.token,
       until       = now() + a.lease * interval '1 second',
       fingerprint = a.fingerprint,
       event_id    = coalesce(a.event_id, c.event_id)
  from asked a
 where c.key = a.key
   and c.attempt = a.attempt
   and c.state = a.state
   and (c.state in ('r', 'R') or (c.state in ('c', 'C') and c.until < now()))
returning a.n::int4, c.attempt, c.state = 'C' as doubtful, extract(epoch from now())::float8 as now,
          c.first_seen::float8;

-- name: settle
-- The holder ends its claim, if it still is the holder. No row back: its claim is lost.
-- Endings: d completed, r released, R released doubtful. Doubt is only ever added.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $4::text, true)) as bounded,
         unnest($1::uuid[], $2::int8[], $3::"char"[]) with ordinality as a(key, token, ending, n)
)
update dedup.claims c
   set state   = (case when a.ending = 'd' and c.state = 'c' then 'd'
                       when a.ending = 'd'                   then 'D'
                       when a.ending = 'r' and c.state = 'c' then 'r'
                       else 'R' end)::"char",
       attempt = case when a.ending = 'd' then nullif(c.attempt, 1) else c.attempt end,
       token   = null,
       until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end
  from asked a
 where c.key = a.key
   and c.token = a.token
   and c.state in ('c', 'C')
returning a.n::int4;

-- name: complete
-- A success that no claim of its own fences any more: the lease was lost, the row is gone, or the event
-- is in the inbox. Success is monotone, so it completes what is there and inserts what is not, and
-- closes the entry. No row back: completed already. `leased`: by the holder of the entry's own lease.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $6::text, true)) as bounded,
         unnest($1::uuid[], $2::int2[], $3::int8[], $4::"char"[], $5::text[])
           as a(key, route, token, fingerprint, event_id)
), owed as materialized (
  select e.key, e.attempt, e.doubtful, e.token, e.state
    from asked a
    join dedup.entries e on e.key = a.key
   where e.state <> 'd'
), closed as (
  update dedup.entries e
     set state = 'd', settled = now(), why = null
    from asked a
   where e.key = a.key
     and e.state <> 'd'
)
insert into dedup.claims as c (key, first_seen, route, state, fingerprint, attempt, event_id)
select a.key, floor(extract(epoch from now()))::int4, a.route,
       (case when o.doubtful then 'D' else 'd' end)::"char", a.fingerprint,
       nullif(greatest(o.attempt, 1), 1), a.event_id
  from asked a
  left join owed o on o.key = a.key
 order by a.key
on conflict (key) do update
   set state   = (case when c.state in ('c', 'r', 's') and excluded.state = 'd' then 'd'
                       else 'D' end)::"char",
       attempt = nullif(greatest(excluded.attempt, c.attempt), 1),
       token   = null,
       until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end
 where c.state not in ('d', 'D')
returning c.key, exists (
  select from owed o join asked a on a.key = o.key
   where o.key = c.key and o.token = a.token and o.state = 'l') as leased;
