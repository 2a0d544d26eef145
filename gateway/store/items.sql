-- The statements of batches: what happens to all items of one at once, and to the entry that stands for
-- them under a key of its own. gateway/core/batch_entry.py says what they mean; claims.sql has the rules
-- that all statements share. Each is about one batch. Claims are locked before entries.

-- name: complete
-- A success that no claims of its own fence any more, as `complete` in claims.sql: of those items, and
-- of the entry, if there is one. `leased`: by the holder of the entry's own lease.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $7::text, true)) as bounded,
         unnest($1::uuid[], $2::"char"[], $3::text[]) as a(key, fingerprint, event_id)
), owed as materialized (
  select e.attempt, e.doubtful, e.token, e.state
    from dedup.entries e
   where e.key = $4::uuid
     and e.state <> 'd'
), closed as (
  update dedup.entries e
     set state = 'd', settled = now(), why = null
   where e.key = $4::uuid
     and e.state <> 'd'
     and (select count(*) from asked) > 0
)
insert into dedup.claims as c (key, first_seen, route, state, fingerprint, attempt, event_id)
select a.key, floor(extract(epoch from now()))::int4, $5::int2,
       (case when o.doubtful then 'D' else 'd' end)::"char", a.fingerprint,
       nullif(greatest(o.attempt, 1), 1), a.event_id
  from asked a
  left join owed o on true
 order by a.key
on conflict (key) do update
   set state   = (case when c.state in ('c', 'r', 's') and excluded.state = 'd' then 'd'
                       else 'D' end)::"char",
       attempt = nullif(greatest(excluded.attempt, c.attempt), 1),
       token   = null,
       until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end
 where c.state not in ('d', 'D')
returning exists (select from owed o where o.token = $6::int8 and o.state = 'l') as leased;

-- name: store
-- The holder of the items' claims gives them to the inbox, each fenced by its token, as one entry. It is
-- doubtful when some were lost: whoever has those sends them too. An entry that is owed under claims
-- that were lost stays as it is. A repeat of the call finds its own token in the entry. No row back:
-- all claims are lost, and nothing is stored.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $19::text, true)) as bounded,
         unnest($1::uuid[], $2::"char"[], $3::bytea[]) as a(key, fingerprint, whole_id)
), mine as (
  update dedup.claims c
     set state = (case when c.state = 'c' and not $9::bool then 's' else 'S' end)::"char",
         token = null,
         until = null
    from asked a
   where c.key = a.key
     and c.token = $6::int8
     and c.state in ('c', 'C')
  returning c.key, c.attempt, c.state = 'S' as doubtful, a.fingerprint, a.whole_id
), together as (
  select max(m.attempt) as attempt,
         bool_or(m.doubtful) or count(*) < (select count(*) from asked) as doubtful
    from mine m
  having count(*) > 0
), kept as (
  insert into dedup.entries as e (key, route, state, doubtful, attempt, fingerprint, token, due,
                                  settled, unkeyed, event_id, method, target, peer, scheme, headers, body)
  select $4::uuid, $5::int2, $7::"char", t.doubtful, t.attempt - ($7::"char" <> 'l')::int4,
         $10::"char", $6::int8,
         case when $7::"char" = 'l' then now() + $8::float8 * interval '1 second' else now() end,
         case when $7::"char" = 'h' then now() end,
         $18::bool, $11::bytea, $12::text, $13::text, $14::text, $15::text, $16::bytea, $17::bytea
    from together t
  on conflict (key) do update
     set route = excluded.route, state = excluded.state, doubtful = excluded.doubtful,
         attempt = excluded.attempt, fingerprint = excluded.fingerprint, token = excluded.token,
         due = excluded.due, since = now(), received = now(), settled = excluded.settled, why = null,
         unkeyed = excluded.unkeyed, event_id = excluded.event_id, method = excluded.method, target = excluded.target,
         peer = excluded.peer, scheme = excluded.scheme, headers = excluded.headers,
         body = excluded.body
   where e.state in ('d', 'x', 'o')
), listed as (
  insert into dedup.entry_items as i (key, entry, fingerprint, event_id)
  select m.key, $4::uuid, m.fingerprint, m.whole_id
    from mine m
   order by m.key
  on conflict (key) do update
     set entry = excluded.entry, fingerprint = excluded.fingerprint, event_id = excluded.event_id
)
select true as stored
  from together
union all
(select true
   from asked a
  where exists (select from dedup.entries e where e.key = $4::uuid and e.token = $6::int8)
    and (select c.state in ('s', 'S') from dedup.claims c where c.key = a.key)
  limit 1);

-- name: revive
-- Deliveries met these events' dead entries: those are due again, with the bytes that they have.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $2::text, true)) as bounded,
         unnest($1::uuid[]) as a(key)
), meant as materialized (
  select i.entry
    from asked a
    join dedup.entry_items i on i.key = a.key
   union
  select a.key
    from asked a
)
update dedup.entries e
   set state = 'p', due = now(), since = now(), settled = null
  from meant m
 where e.key = m.entry
   and e.state = 'x'
returning e.key;
