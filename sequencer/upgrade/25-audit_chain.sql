.read lib/daemon/upgrade/audit_chain.sql
