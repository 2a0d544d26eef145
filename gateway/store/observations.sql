-- name: note
-- Totals, not steps: stored twice they are the same, and a delayed copy changes nothing. Nobody else
-- writes the rows of a series.
insert into dedup.observations as o
       (series, route, recipe, what, detail, number, greatest, example)
select $1, a.route, a.recipe, a.what, a.detail, a.number, a.greatest, a.example
  from unnest($2::int2[], $3::uuid[], $4::text[], $5::text[], $6::int8[], $7::float8[], $8::text[])
         as a(route, recipe, what, detail, number, greatest, example)
 order by a.route, a.recipe, a.what, a.detail
on conflict (series, route, recipe, what, detail) do update
   set number = excluded.number,
       greatest = excluded.greatest,
       example = excluded.example,
       until = now()
 where o.number < excluded.number;

-- name: forget
delete from dedup.observations o
 using (select series, route, recipe, what, detail
          from dedup.observations
         where since < now() - interval '90 days'
         order by since
         limit $1
           for update skip locked) as old
 where o.series = old.series and o.route = old.route and o.recipe = old.recipe
   and o.what = old.what and o.detail = old.detail
returning 1;

-- name: observed
-- What all processes noted of a route since then, under this recipe and under others.
select o.what, o.detail, o.recipe = $2 as current,
       sum(o.number)::int8 as number, max(o.greatest) as greatest,
       (array_agg(o.example order by o.until desc) filter (where o.example is not null))[1] as example,
       extract(epoch from min(o.since))::float8 as since,
       extract(epoch from max(o.until))::float8 as until
  from dedup.observations o
 where o.route = $1 and o.until >= to_timestamp($3)
 group by o.what, o.detail, o.recipe = $2
 order by o.what, o.detail;
