.read proto/upgrade/hop.sql
