-- name: keep
-- The first reply stays, whoever comes later with another one.
with asked as materialized (
  select a.*
    from (select set_config('lock_timeout', $5::text, true)) as bounded,
         unnest($1::uuid[], $2::int2[], $3::bytea[], $4::bytea[])
           as a(key, status, content_type, body)
)
insert into dedup.replies (key, kept, status, content_type, body)
select a.key, floor(extract(epoch from now()))::int4, a.status, a.content_type, a.body
  from asked a
 order by a.key
on conflict (key) do nothing;

-- name: forget
-- Before one is kept anew. Should `keep` not follow, its duplicates are told what others are.
with asked as materialized (
  select a.key
    from (select set_config('lock_timeout', $2::text, true)) as bounded,
         unnest($1::uuid[]) as a(key)
)
delete from dedup.replies r
 using asked a
 where r.key = a.key;

-- name: recall
select a.n::int4, r.status, r.content_type, r.body
  from unnest($1::uuid[]) with ordinality as a(key, n)
  join dedup.replies r on r.key = a.key;
