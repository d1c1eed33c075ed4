.read lib/daemon/upgrade/acts.sql
