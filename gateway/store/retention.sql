-- How long claims are kept: who said so, what is purged, and canaries. gateway/core/purging.py and
-- canary.py say what it means. None of this is on the path of a delivery.

-- name: on_record
-- Whether the schema is of a release that keeps records of retention.
select to_regclass('dedup.canaries') is not null as on_record;

-- name: routes
-- What is on record of these names and places: also of routes that were there under another name.
select r.name, r.recipe, r.place
  from dedup.routes r
 where r.name = any ($1::text[]) or r.place = any ($2::text[])
 order by r.id;

-- name: pages
-- How long the table of claims is, and that of replies.
select (pg_relation_size('dedup.claims') / current_setting('block_size')::int)::int8 as claims,
       (pg_relation_size('dedup.replies') / current_setting('block_size')::int)::int8 as replies;

-- name: claiming
-- Which of these routes have claims on some pages of the table; canaries are none.
select r.name
  from dedup.routes r
 where r.name = any ($1::text[])
   and r.id in (
     select c.route
       from dedup.claims c
      where c.ctid >= $2::text::tid
        and c.ctid < $3::text::tid
        and not exists (
          select from dedup.canaries k
           where k.route = c.route
             and k.planted = c.first_seen
             and k.key = c.key));

-- name: register
-- How long this process keeps the claims of its routes, and where they are (null: as before). What
-- changes is recorded.
with told as materialized (
  select a.*
    from unnest($1::text[], $2::int8[], $3::text[], $4::text[]) as a(name, retention, place, source)
), was as materialized (
  select r.id, r.name, r.retention as was, t.retention, coalesce(t.place, r.place) as place, t.source
    from told t
    join dedup.routes r on r.name = t.name
   where (r.retention, r.place) is distinct from (t.retention, coalesce(t.place, r.place))
   order by r.id
     for update of r
), put as (
  update dedup.routes r
     set retention = w.retention, place = w.place
    from was w
   where r.id = w.id
), recorded as (
  insert into dedup.retentions (at, route, was, "is", who, source)
  select now(), w.id, w.was, w.retention, $5, w.source
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

-- name: leave
-- What was here under these names is not missed any more.
update dedup.routes
   set place = null
 where name = any ($1::text[]);

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
-- The first one says since when a route's memory is looked after.
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
), born as (
  update dedup.routes r
     set born = now()
    from planted p
   where r.id = p.route
     and r.born is null
)
insert into dedup.claims (key, first_seen, route, state, fingerprint, event_id)
select p.key, p.planted, p.route, 'd', 'c', $3::text
  from planted p
returning route;

-- name: memory
-- How far the memory of each route reaches. The oldest canary that is looked at may be older than the
-- one that is missing last, so both are found in one pass.
with noted as materialized (
  select k.route, k.planted,
         (select true from dedup.claims c where c.key = k.key) is true as there
    from dedup.canaries k
   where k.route = any (array(select r.id from dedup.routes r where r.name = any ($1::text[])))
), missing as materialized (
  select n.route, max(n.planted) as planted
    from noted n
   where not n.there
   group by n.route
), since as materialized (
  select n.route, least(min(n.planted) filter (where n.planted > coalesce(m.planted, -1)),
                        min(m.planted) + $2::int4) as at
    from noted n
    left join missing m on m.route = n.route
   group by n.route
)
select r.name, coalesce(greatest(extract(epoch from now() - r.born), 0), 0)::float8 as age,
       coalesce(greatest(extract(epoch from now()) - s.at, 0), 0)::float8 as reach, r.retention,
       (select min(c.was + extract(epoch from now() - c.at))
          from dedup.retentions c
         where c.route = r.id
           and c.was < c."is")::float8 as grown
  from dedup.routes r
  left join since s on s.route = r.id
 where r.name = any ($1::text[]);

-- name: last_purge
select extract(epoch from ended)::float8 as ended
  from dedup.jobs
 where name = 'purge';

-- name: take_purge
-- One at a time: until the lease is over, or the next run is due, nobody else gets the job.
with job as (
  insert into dedup.jobs as j (name, token, until)
  values ('purge', $1, now() + $2::float8 * interval '1 second')
  on conflict (name) do update
     set token = excluded.token, until = excluded.until
   where j.until <= now()
  returning true
)
insert into dedup.purges (began, who)
select now(), $3
  from job
returning id;

-- name: keep_purge
update dedup.jobs
   set until = now() + $2::float8 * interval '1 second'
 where name = 'purge'
   and token = $1
returning true;

-- name: purge
-- Claims on some pages of the table whose time is over. A row that somebody has locked is in use, and
-- waits for the next run. One that changed since this statement began is not deleted either: it is seen
-- with the entries of that moment, and may have got one since. Entries are looked up one row at a time,
-- as in lease. What is gone is recorded in the same transaction. On the same pages of the replies those
-- go that never had a claim: a batch's, which has a key of its own.
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
   where r.key = any (array(select g.key from gone g))
), alone as (
  delete from dedup.replies r
   where r.ctid >= $1::text::tid
     and r.ctid < $2::text::tid
     and r.kept < extract(epoch from now()) - 7200 - (select max(o.retention) from dedup.routes o)
     and (select true from dedup.claims c where c.key = r.key) is not true
), sums as materialized (
  select r.id, r.name, r.retention, count(*)::int8 as claims,
         (count(*) filter (where g.state not in ('d', 'D', 'r')))::int8 as unresolved
    from gone g
    join dedup.routes r on r.id = g.route
   group by r.id
), recorded as (
  insert into dedup.purges as p (run, began, ended, route, cut_off, purged, unresolved, who)
  select n.id, n.began, now(), s.id, now() - s.retention * interval '1 second', s.claims, s.unresolved,
         n.who
    from sums s
    join dedup.purges n on n.id = $3::int8
  on conflict (run, route) do update
     set ended      = excluded.ended,
         cut_off    = excluded.cut_off,
         purged     = p.purged + excluded.purged,
         unresolved = p.unresolved + excluded.unresolved
)
select s.name, s.claims, s.unresolved
  from sums s;

-- name: end_purge
-- The run is done, and the next one is due in a while. Nothing where somebody else has the job by now.
with ended as (
  update dedup.jobs
     set token = null, until = now() + $2::float8 * interval '1 second', ended = now()
   where name = 'purge'
     and token = $1
  returning true
)
update dedup.purges r
   set ended      = now(),
       purged     = (select coalesce(sum(p.purged), 0) from dedup.purges p where p.run = r.id),
       unresolved = (select coalesce(sum(p.unresolved), 0) from dedup.purges p where p.run = r.id)
  from ended
 where r.id = $3
returning true;

-- name: forget
-- Notes of canaries that were purged, but for the latest: it says how far back those reach that were
-- planted since. And old records of runs.
with notes as (
  delete from dedup.canaries k
   using dedup.routes r
   where r.id = k.route
     and k.planted < extract(epoch from now()) - r.retention - 86400
     and exists (
       select from dedup.canaries n
        where n.route = k.route
          and n.planted > k.planted
          and n.planted < extract(epoch from now()) - r.retention - 86400)
     and not exists (select from dedup.claims c where c.key = k.key)
)
delete from dedup.purges
 where began < now() - interval '400 days';
