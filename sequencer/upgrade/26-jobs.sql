.read lib/daemon/upgrade/jobs.sql
