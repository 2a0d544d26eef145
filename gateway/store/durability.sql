-- name: durability
-- What every role may ask. Of pg_stat_replication others than superusers see the rows, if little in
-- them: each is somebody who follows this server.
select current_setting('server_version') as version,
       current_setting('fsync')::bool as fsync,
       current_setting('full_page_writes')::bool as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('synchronous_standby_names') as synchronous_standby_names,
       (select count(*) from pg_stat_replication)::int4 as followers;
