-- The inbox's statements. gateway/core/inbox.py says what they mean; claims.sql has the rules that
-- all statements share. Only leasing skips locked rows, and only those of entries.

-- name: accept
-- Claim and entry in one statement, so in one transaction. An event that has a claim already is only
-- read, as by arrive; the row that comes back has the same columns, and `first` where it was stored. A
-- claim without `first` was made anew for an entry that somebody else has: asked again, the row tells.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $17::text, true)) as bounded,
         unnest($1::uuid[], $2::int2[], $3::int8[], $4::"char"[], $5::text[], $6::bytea[], $7::"char"[],
                $8::float8[], $9::bool[], $10::bool[], $11::text[], $12::text[], $13::text[],
                $14::text[], $15::bytea[], $16::bytea[])
           with ordinality as a(key, route, token, fingerprint, event_id, whole_id, state,
                                lease, doubtful, has_room, method, target, peer, scheme, headers, body, n)
), seen as materialized (
  select c.key, c.state, c.attempt, c.token, c.fingerprint, c.first_seen,
         c.state in ('r', 'R') or (c.state in ('c', 'C') and c.until < now()) as open,
         e.token as entry_token,
         case when c.event_id <> a.event_id then c.event_id end as other_id,
         case when c.state in ('s', 'S') then
           e.state is not distinct from 'x'
           or (select b.state = 'x' from dedup.entry_items i join dedup.entries b on b.key = i.entry
                where i.key = c.key) is true
         end as dead
    from asked a
    join dedup.claims c on c.key = a.key
    left join dedup.entries e on e.key = c.key and c.state in ('s', 'S')
), won as (
  insert into dedup.claims (key, first_seen, route, state, fingerprint, attempt, event_id)
  select a.key, floor(extract(epoch from now()))::int4, a.route,
         (case when a.doubtful then 'S' else 's' end)::"char", a.fingerprint, 1, a.event_id
    from asked a
   where a.has_room
     and not exists (select from seen s where s.key = a.key)
   order by a.key
  on conflict (key) do nothing
  returning key
), kept as (
  insert into dedup.entries as e (key, route, state, doubtful, attempt, fingerprint, token, due,
                                  settled, event_id, method, target, peer, scheme, headers, body)
  select a.key, a.route, a.state, a.doubtful, (a.state = 'l')::int4, a.fingerprint, a.token,
         case when a.state = 'l' then now() + a.lease * interval '1 second' else now() end,
         case when a.state = 'h' then now() end,
         a.whole_id, a.method, a.target, a.peer, a.scheme, a.headers, a.body
    from asked a
    join won w on w.key = a.key
   order by a.key
  on conflict (key) do update
     set route = excluded.route, state = excluded.state, doubtful = excluded.doubtful,
         attempt = excluded.attempt, fingerprint = excluded.fingerprint, token = excluded.token,
         due = excluded.due, since = now(), received = now(), settled = excluded.settled, why = null,
         event_id = excluded.event_id, method = excluded.method, target = excluded.target,
         peer = excluded.peer, scheme = excluded.scheme, headers = excluded.headers,
         body = excluded.body
   where e.state in ('d', 'x', 'o')
  returning e.key
)
select k.key is not null as first, s.open, s.state, s.attempt, s.token, s.fingerprint, s.first_seen,
       extract(epoch from now())::float8 as now, s.entry_token, s.dead, s.other_id
  from asked a
  left join kept k on k.key = a.key
  left join seen s on s.key = a.key
 order by a.n;

-- name: store
-- The holder of a claim gives it to the inbox, fenced by its token. A repeat of the call finds its own
-- token in the entry. No row back: the claim is lost, and nothing is stored.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $14::text, true)) as bounded,
         unnest($1::uuid[], $2::int8[], $3::"char"[], $4::bytea[], $5::"char"[], $6::float8[],
                $7::bool[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bytea[],
                $13::bytea[])
           with ordinality as a(key, token, fingerprint, whole_id, state, lease,
                                doubtful, method, target, peer, scheme, headers, body, n)
), mine as (
  update dedup.claims c
     set state = (case when c.state = 'c' and not a.doubtful then 's' else 'S' end)::"char",
         token = null,
         until = null
    from asked a
   where c.key = a.key
     and c.token = a.token
     and c.state in ('c', 'C')
  returning a.n, c.key, c.route, c.attempt, c.state = 'S' as doubtful
), kept as (
  insert into dedup.entries as e (key, route, state, doubtful, attempt, fingerprint, token, due,
                                  settled, event_id, method, target, peer, scheme, headers, body)
  select m.key, m.route, a.state, m.doubtful, m.attempt - (a.state <> 'l')::int4, a.fingerprint,
         a.token,
         case when a.state = 'l' then now() + a.lease * interval '1 second' else now() end,
         case when a.state = 'h' then now() end,
         a.whole_id, a.method, a.target, a.peer, a.scheme, a.headers, a.body
    from mine m
    join asked a on a.n = m.n
   order by m.key
  on conflict (key) do update
     set route = excluded.route, state = excluded.state, doubtful = excluded.doubtful,
         attempt = excluded.attempt, fingerprint = excluded.fingerprint, token = excluded.token,
         due = excluded.due, since = now(), received = now(), settled = excluded.settled, why = null,
         event_id = excluded.event_id, method = excluded.method, target = excluded.target,
         peer = excluded.peer, scheme = excluded.scheme, headers = excluded.headers,
         body = excluded.body
   where e.state in ('d', 'x', 'o')
)
select m.n::int4
  from mine m
union all
select a.n::int4
  from asked a
  join dedup.entries e on e.key = a.key and e.token = a.token
  join dedup.claims  c on c.key = a.key and c.state in ('s', 'S');

-- name: lease
-- The lease is committed before anything is sent; the attempt is counted here. A lease that was lapsed
-- is doubt. An entry whose event is completed is closed instead: its success came while it was being
-- stored, or its claim was lost and won anew. What is too heavy to be fetched together stays due. The
-- first attempt after a redrive is by a person's order, which has the moment of the entry's `since`.
-- Claims and actions are asked about one row at a time: of an `exists` Postgres may make a table of all
-- completed claims first, for every lease. A batch is over when all of its items are and it carries
-- nothing else; where some are, it is sent for the others, marked. `asc` is the oldest first; for the
-- newest first, so that a fresh event does not wait for a backlog, the same text is turned round.
with due as materialized (
  select e.key, e.state, e.due, e.unkeyed, octet_length(e.body) as size
    from dedup.entries e
   where e.route = $1
     and e.state in ('p', 'l')
     and e.due <= now()
     and (e.state = 'p' or e.due < now())
   order by e.due asc
   limit $2
     for update of e skip locked
), known as materialized (
  select d.*, b.items, b.fingerprints, b.ids, coalesce(b.partly, false) as partly,
         not d.unkeyed and coalesce(b.over,
           (select c.state in ('d', 'D') from dedup.claims c where c.key = d.key), false) as over
    from due d
   cross join lateral (
     select array_agg(i.key order by i.key) as items,
            array_agg(i.fingerprint order by i.key) as fingerprints,
            array_agg(i.event_id order by i.key) as ids,
            bool_and(i.over) as over,
            bool_or(i.over) as partly
       from (select i.*, coalesce((
                      select c.state in ('d', 'D') from dedup.claims c where c.key = i.key), false) as over
               from dedup.entry_items i
              where i.entry = d.key
             offset 0) as i) as b
), closed as (
  update dedup.entries e
     set state = 'd', settled = now(), why = null
    from known k
   where e.key = k.key
     and k.over
), fitting as (
  select d.key, d.state, d.due, d.items, d.fingerprints, d.ids, d.partly,
         sum(d.size) over (order by d.due asc, d.key rows unbounded preceding) as bytes,
         row_number() over (order by d.due asc, d.key) as n
    from known d
   where not d.over
)
update dedup.entries e
   set state    = 'l',
       attempt  = e.attempt + 1,
       doubtful = e.doubtful or f.state = 'l' or f.partly,
       token    = $3,
       due      = now() + $4::float8 * interval '1 second'
  from fitting f
 where e.key = f.key
   and (f.bytes <= $5 or f.n = 1)
returning e.key, e.event_id, e.attempt, e.doubtful, e.fingerprint,
          extract(epoch from now() - e.since)::float8 as age, extract(epoch from now())::float8 as now,
          e.method, e.target, e.headers, e.body, e.peer, e.scheme, f.state = 'l' as took_over,
          coalesce((
            select true from dedup.actions o
             where o.key = e.key and o.attempt = e.attempt - 1
               and o.action = 'redrive' and o.at = e.since
             limit 1), false) as by_order,
          f.items, f.fingerprints, f.ids, f.due;

-- name: put_back
-- A worker ends its attempt without success, if the entry still is its own. `unsent`: the attempt does
-- not count. What is held keeps the end of its latest attempt as the reason, which a person has to know.
-- No row back: somebody else has it.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $8::text, true)) as bounded,
         unnest($1::uuid[], $2::int8[], $3::"char"[], $4::bool[], $5::bool[], $6::float8[], $7::text[])
           with ordinality as a(key, token, state, doubtful, unsent, pause, why, n)
)
update dedup.entries e
   set state    = a.state,
       doubtful = e.doubtful or a.doubtful,
       attempt  = e.attempt - a.unsent::int4,
       due      = now() + a.pause * interval '1 second',
       settled  = case when a.state <> 'p' then now() end,
       why      = case when a.state = 'h' then coalesce(e.why, a.why) else a.why end
  from asked a
 where e.key = a.key
   and e.token = a.token
   and e.state = 'l'
returning a.n::int4;

-- name: revive
-- A delivery meets a dead entry: its bytes replace the old ones, attempts and doubt stay. Its route does
-- too: where routes share a scope, nobody else knows what to make of its target. Another event of the same
-- operation has the entry sent as it is: what was acknowledged first is what is owed.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $11::text, true)) as bounded,
         unnest($1::uuid[], $2::int2[], $3::"char"[], $4::bytea[], $5::text[], $6::text[], $7::text[],
                $8::text[], $9::bytea[], $10::bytea[])
           with ordinality as a(key, route, fingerprint, whole_id, method, target, peer, scheme,
                                headers, body, n)
)
update dedup.entries e
   set state = 'p', due = now(), since = now(), received = now(), settled = null, why = 'revived',
       route = case when e.event_id is distinct from a.whole_id then e.route else a.route end,
       fingerprint = case when e.event_id is distinct from a.whole_id then e.fingerprint else a.fingerprint end,
       method = case when e.event_id is distinct from a.whole_id then e.method else a.method end,
       target = case when e.event_id is distinct from a.whole_id then e.target else a.target end,
       peer = case when e.event_id is distinct from a.whole_id then e.peer else a.peer end,
       scheme = case when e.event_id is distinct from a.whole_id then e.scheme else a.scheme end,
       headers = case when e.event_id is distinct from a.whole_id then e.headers else a.headers end,
       body = case when e.event_id is distinct from a.whole_id then e.body else a.body end
  from asked a
 where e.key = a.key
   and e.state = 'x'
returning a.n::int4;

-- name: released
-- Whether a person freed the claim after this attempt, and so had its event sent once more.
select exists (
  select from dedup.actions o where o.key = $1 and o.action = 'release' and o.attempt = $2) as released;

-- name: due
-- The routes that have something to send.
select r.id
  from unnest($1::int2[]) as r(id)
 where exists (
   select from dedup.entries e
    where e.route = r.id
      and e.state in ('p', 'l')
      and e.due <= now()
 );

-- name: waiting
-- For the gauges and the high-water mark. Two halves, as there are two partial indexes: all four states
-- in one list imply neither, and each look would read every delivered entry too.
select e.route, e.state, count(*)::int8 as entries,
       extract(epoch from now() - min(e.received))::float8 as oldest
  from (select p.route, p.state, p.received from dedup.entries p where p.state in ('p', 'l')
        union all
        select w.route, w.state, w.received from dedup.entries w where w.state in ('x', 'h')) as e
 group by e.route, e.state;

-- name: orphans
-- Names of routes with undelivered entries that are not among these. In halves, as above.
select r.name, count(*)::int8 as entries
  from (select p.route from dedup.entries p where p.state in ('p', 'l')
        union all
        select w.route from dedup.entries w where w.state in ('x', 'h')) as e
  join dedup.routes r on r.id = e.route
 where r.name <> all ($1::text[])
 group by r.name
 order by r.name;

-- name: forget
-- Entries whose payload has been kept for long enough; claims outlive them.
with over as materialized (
  select e.key
    from dedup.entries e
   where e.route = $1
     and e.state in ('d', 'o')
     and e.settled < now() - $2::float8 * interval '1 second'
   order by e.settled
   limit $3
     for update skip locked
), items as (
  delete from dedup.entry_items i
   using over o
   where i.entry = o.key
)
delete from dedup.entries e
 using over o
 where e.key = o.key
returning e.key;
