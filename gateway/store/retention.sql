-- How long claims are kept: who said so, what is purged, and canaries. gateway/core/purging.py and
-- canary.py say what it means. None of this is on the path of a delivery.

-- name: routes
-- What is on record of these places: also of routes that were there under another name.
select r.name, r.recipe, r.retention, r.place, extract(epoch from r.since)::float8 as since,
       exists (select from dedup.claims c
                where c.route = r.id
                  and not exists (select from dedup.canaries k where k.key = c.key)) as remembers
  from dedup.routes r
 where r.name = any ($1::text[]) or r.place = any ($2::text[])
 order by r.id;

-- name: register
-- How long this process keeps the claims of its routes, and where they are. What changes is recorded.
with told as materialized (
  select a.*
    from unnest($1::text[], $2::int8[], $3::text[], $4::text[]) as a(name, retention, place, source)
), was as materialized (
  select r.id, r.name, r.retention as was, t.retention, t.place, t.source
    from told t
    join dedup.routes r on r.name = t.name
   where (r.retention, r.place) is distinct from (t.retention, t.place)
   order by r.id
     for update of r
), put as (
  update dedup.routes r
     set retention = w.retention, place = w.place
    from was w
   where r.id = w.id
), recorded as (
  insert into dedup.retentions (route, was, "is", who, source)
  select w.id, w.was, w.retention, $5, w.source
    from was w
   where w.was is distinct from w.retention
)
select name, was, retention
  from was
 where was.was is distinct from was.retention;

-- name: renew
-- Its keys are made in another way from now on, and somebody said that this is meant.
update dedup.routes r
   set recipe = a.recipe, since = now()
  from unnest($1::text[], $2::bytea[]) as a(name, recipe)
 where r.name = a.name
   and r.recipe <> a.recipe
returning r.name;

-- name: shortened
-- The latest time that each of these routes' retention became shorter.
select distinct on (r.name)
       r.name, c.was, c."is", extract(epoch from c.at)::float8 as at, c.who, c.source
  from dedup.retentions c
  join dedup.routes r on r.id = c.route
 where r.name = any ($1::text[])
   and c.was > c."is"
 order by r.name, c.id desc;

-- name: plant
with due as materialized (
  select r.id
    from unnest($1::int2[]) as r(id)
   where not exists (
     select from dedup.canaries k
      where k.route = r.id
        and k.planted > extract(epoch from now())::int4 - $2::int4)
), planted as (
  insert into dedup.canaries (route, planted, key)
  select d.id, floor(extract(epoch from now()))::int4, gen_random_uuid()
    from due d
   order by d.id
  on conflict do nothing
  returning route, planted, key
)
insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
select p.key, p.planted, p.route, 'd', 'c', $3::text
  from planted p
returning route;

-- name: memory
-- How far the memory of each route reaches.
with noted as materialized (
  select k.route, k.planted,
         (select true from dedup.claims c where c.key = k.key) is true as there
    from dedup.canaries k
   where k.route = any ($1::int2[])
), missing as materialized (
  select n.route, max(n.planted) as planted
    from noted n
   where not n.there
   group by n.route
)
select r.id, extract(epoch from now() - r.born)::float8 as age, r.retention,
       greatest(extract(epoch from now()) - coalesce((
         select min(n.planted)
           from noted n
          where n.route = r.id
            and n.there
            and n.planted > coalesce((select m.planted from missing m where m.route = r.id), -1)),
         extract(epoch from now())), 0)::float8 as reach
  from dedup.routes r
 where r.id = any ($1::int2[]);

-- name: last_purge
select extract(epoch from ended)::float8 as ended
  from dedup.jobs
 where name = 'purge';

-- name: take_purge
-- One at a time: until the lease is over, or the next run is due, nobody gets the row.
update dedup.jobs
   set token = $1, until = now() + $2::float8 * interval '1 second'
 where name = 'purge'
   and until <= now()
returning extract(epoch from now())::float8 as began,
          (pg_relation_size('dedup.claims') / current_setting('block_size')::int)::int8 as pages;

-- name: keep_purge
update dedup.jobs
   set until = now() + $2::float8 * interval '1 second'
 where name = 'purge'
   and token = $1
returning true;

-- name: purge
-- Claims on some pages of the table whose time is over. A row that somebody has locked is in use, and
-- waits for the next run. The conditions are about a row as it is once we have its lock. Entries are
-- looked up one row at a time, as in lease.
with over as materialized (
  select c.ctid as at
    from dedup.claims c
    join dedup.routes r on r.id = c.route
   where c.ctid >= $1::text::tid
     and c.ctid < $2::text::tid
     and extract(epoch from now()) - greatest(
           c.first_seen + case when c.until is null then 3600 else 0 end, extract(epoch from c.until))
         > case when c.state = 'r' then 3600 else r.retention end
     and (select e.state in ('p', 'l', 'x', 'h') from dedup.entries e where e.key = c.key) is not true
     and (select e.state in ('p', 'l', 'x', 'h')
            from dedup.entry_items i join dedup.entries e on e.key = i.entry
           where i.key = c.key) is not true
     for update of c skip locked
), gone as (
  delete from dedup.claims c
   where c.ctid = any (array(select o.at from over o))
  returning c.key, c.route, c.state
), replies as (
  delete from dedup.replies r
   using gone g
   where r.key = g.key
)
select g.route, count(*)::int8 as purged,
       (count(*) filter (where g.state not in ('d', 'D', 'r')))::int8 as unresolved
  from gone g
 group by g.route;

-- name: end_purge
-- Record the run, and say when the next one is due. Nothing where somebody else has the job by now.
with ended as (
  update dedup.jobs
     set token = null, until = now() + $2::float8 * interval '1 second', ended = now()
   where name = 'purge'
     and token = $1
  returning true
), run as materialized (
  select a.*
    from ended, unnest($3::int2[], $4::int8[], $5::int8[]) as a(route, purged, unresolved)
), recorded as (
  insert into dedup.purges (began, route, cut_off, purged, unresolved, who)
  select to_timestamp($6::float8), n.route,
         to_timestamp($6::float8) - r.retention * interval '1 second', n.purged, n.unresolved, $7
    from run n
    left join dedup.routes r on r.id = n.route
  union all
  select to_timestamp($6::float8), null, null,
         (select coalesce(sum(purged), 0) from run), (select coalesce(sum(unresolved), 0) from run), $7
    from ended
)
select true from ended;

-- name: forget
-- Notes of canaries whose claims were purged long ago, and records of runs.
with notes as (
  delete from dedup.canaries k
   using dedup.routes r
   where r.id = k.route
     and k.planted < extract(epoch from now()) - 2 * r.retention - 86400
)
delete from dedup.purges
 where began < now() - interval '400 days';

-- name: numbers
select name, id from dedup.routes;
