-- The first owns the schema, the second is what servers run as, the third makes backups.
CREATE ROLE memories_owner LOGIN PASSWORD 'of-the-owner';
CREATE ROLE memories LOGIN PASSWORD 'of-the-server';
CREATE ROLE memories_backup LOGIN PASSWORD 'of-the-backup' BYPASSRLS IN ROLE pg_read_all_data;
CREATE DATABASE memories OWNER memories_owner;
