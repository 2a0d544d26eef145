-- A list of somebody else's against the claims. gateway/core/auditing.py says what it means.
--
-- All of it is one transaction: the list comes into temporary tables that go with it, and everything
-- is judged as of one moment. The memory itself is only read. None of this is on the path of a
-- delivery, and no index is made for it: who asks has time.

-- name: start
-- Rows of the list, and its events once they are judged.
create temporary table audit_rows (
    key       uuid    not null,
    event_id  bytea   not null,
    at        float8,
    line      int8    not null
) on commit drop;

-- name: start_events
create temporary table audit_events (
    key         uuid    not null,
    event_id    bytea   not null,
    number      int8    not null,
    first       float8,
    last        float8,
    line        int8    not null,
    standing    text    not null,
    is_double   bool    not null,
    state       "char",
    attempt     int4,
    first_seen  int4,
    route       int2
) on commit drop;

-- name: start_claims
-- Those that the list lacks.
create temporary table audit_claims (
    key         uuid    not null,
    event_id    text,
    standing    text    not null,
    state       "char"  not null,
    attempt     int4    not null,
    first_seen  int4    not null,
    ended       float8  not null,
    action      text
) on commit drop;

-- name: remembered
-- How far back the claims of the route reach, and how far the list does.
select extract(epoch from r.born)::float8 as born, extract(epoch from r.since)::float8 as since,
       (select min(c.first_seen)::float8 from dedup.claims c where c.route = r.id) as oldest,
       (select extract(epoch from max(p.cut_off))::float8
          from dedup.purges p where p.route = r.id) as cut_off,
       r.retention::float8 as retention, r.recipe,
       l.number, l.first, l.last
  from dedup.routes r
 cross join (select count(*)::int8 as number, min(at) as first, max(at) as last
               from audit_rows) as l
 where r.id = $1;

-- name: judge_events
-- $1 whose list it is, $2 since, $3 until, $4 when the memory begins, $5 when the audit did, $6 the
-- edge, $7 whether what has no time is of the window.
insert into audit_events
select e.key, e.event_id, e.number, e.first, e.last, e.line,
       case when c.key is null and e.last < $4::float8                   then 'forgotten'
            when e.last < $2::float8                                     then 'before'
            when e.first > $3::float8                                    then 'after'
            when c.state in ('d', 'D')                                   then 'matched'
            when c.key is not null and $1::text = 'provider'             then 'matched'
            when c.key is not null                                       then 'unfinished'
            when e.last is null and not $7::bool                         then 'undated'
            when $1 = 'effects'                                          then 'leak'
            when e.last > $5::float8 - $6::float8                        then 'edge'
            else 'missing' end,
       $1 = 'effects' and e.number > 1
         and (e.last < $2) is not true and (e.first > $3) is not true,
       c.state, coalesce(c.attempt, 1), c.first_seen, c.route
  from (select key, event_id, count(*)::int8 as number, min(at) as first, max(at) as last,
               min(line) as line
          from audit_rows
         group by key, event_id) as e
  left join dedup.claims c on c.key = e.key;

-- name: judge_claims
-- The claims that the route took first, of events that the list lacks: $1 whose list it is, $2 since,
-- $3 until, $4 the edge, $5 the route. Those of another time are only counted.
insert into audit_claims
select c.key, c.event_id,
       case when $1::text = 'provider' and c.near         then 'edge'
            when $1 = 'provider'                          then 'unknown'
            when c.state not in ('d', 'D')                then 'undecided'
            when c.action = 'drop'                        then 'dropped'
            when c.near or c.ended > $3 - $4              then 'edge'
            when c.marked                                 then 'marked'
            else 'loss' end,
       c.state, c.attempt, c.first_seen, c.ended, c.action
  from (select c.key, c.event_id, c.state, coalesce(c.attempt, 1) as attempt, c.first_seen,
               c.first_seen < $2::float8 + $4::float8 or c.first_seen > $3::float8 - $4 as near,
               -- A row says when it was settled only where that was over an hour after it was made.
               greatest(
                 c.first_seen + case when c.attempt > 1 and c.until is null and e.settled is null
                                     then 3600 else 0 end,
                 case when c.state in ('d', 'D') then extract(epoch from c.until) end,
                 extract(epoch from e.settled))::float8 as ended,
               -- What was completed by a first forward has no attempt.
               c.attempt = 1 and c.state in ('d', 'D') as marked,
               coalesce(
                 (select a.action
                    from dedup.actions a
                   where a.key = any (array[c.key, i.entry])
                   order by a.id desc
                   limit 1),
                 case when c.attempt = 1 and c.state in ('d', 'D') then 'backfill' end) as action
          from dedup.claims c
          left join dedup.entry_items i on i.key = c.key
          left join dedup.entries     e on e.key = coalesce(i.entry, c.key)
         where c.route = $5::int2
           and c.first_seen between $2 and $3
           and not exists (select from audit_events   l where l.key = c.key)
           and not exists (select from dedup.canaries k where k.key = c.key)) as c;

-- name: outside
-- Claims of the route that are not of the window.
select (count(*) filter (where c.first_seen < $2::float8))::int8 as before,
       (count(*) filter (where c.first_seen > $3::float8))::int8 as after,
       (count(*) filter (where c.first_seen between $2 and $3))::int8 as inside
  from dedup.claims c
 where c.route = $1
   and not exists (select from dedup.canaries k where k.key = c.key);

-- name: counts
-- What is of the list, and what of the claims that it lacks.
select true as listed, e.standing, count(*)::int8 as number
  from audit_events e
 group by e.standing
 union all
select true, 'double', count(*) from audit_events e where e.is_double
 union all
select true, 'announced', count(*) from audit_events e where e.is_double and e.state in ('C', 'R', 'S', 'D')
 union all
select false, c.standing, count(*)
  from audit_claims c
 group by c.standing;

-- name: shared
-- Which routes took the claims of the list's events, and how many operations have several events.
select e.route, count(*)::int8 as number
  from audit_events e
 where e.route is not null
 group by e.route;

-- name: operations
select count(*)::int8 as number
  from (select e.key from audit_events e group by e.key having count(*) > 1) as several;

-- name: found
-- $1 the kinds, $2 how many of each at most (null: all), $3 what picks them.
select f.kind, f.key, f.event_id, f.kept_id, f.first, f.last, f.number, f.line, f.state, f.attempt,
       f.action, f.route
  from (select f.*, row_number() over (
                 partition by f.kind order by uuid_hash_extended(f.key, $3::int8), f.event_id) as place
          from (select e.standing as kind, e.key, e.event_id, null as kept_id, e.first, e.last,
                       e.number, e.line, e.state, e.attempt, null as action, e.route
                  from audit_events e
                 where e.standing = any ($1::text[])
                 union all
                select 'double', e.key, e.event_id, null, e.first, e.last,
                       e.number, e.line, e.state, e.attempt, null, e.route
                  from audit_events e
                 where e.is_double
                 union all
                select c.standing, c.key, null, c.event_id, c.first_seen, c.ended,
                       null, null, c.state, c.attempt, c.action, null
                  from audit_claims c
                 where c.standing = any ($1)) as f) as f
 where $2::int8 is null or f.place <= $2
 order by array_position($1, f.kind), f.first, f.line, f.key, f.event_id;
