.read proto/upgrade/names.sql
