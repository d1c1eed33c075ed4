"""A pipeline whose endpoints give trouble: for tests that kill its processes."""


def troubled(rig, refused, **audit):
    """Two deliverers with a short lease and three endpoints: crm fails once for
    each event, audit (with these keys) is slow, legal gets the events of the
    workspaces `refused` and refuses all of them. Not started."""
    rig.env["GRAPNEL_TEST_LEASE_MS"] = "500"
    rig.config["endpoint_defaults"] = {"timeout": "1s",
                                       "connect_timeout": "500ms"}
    rig.config["endpoints"] = [
        rig.endpoint("crm"), rig.endpoint("audit", **audit),
        rig.endpoint("legal", workspaces=refused)]
    rig.write_config()
    rig.receiver.rules(
        {"path": "/crm", "per": "event", "responses": [
            {"status": 503}, {"status": 200, "delay_ms": 5}]},
        {"path": "/audit", "responses": [{"status": 200, "delay_ms": 20}]},
        {"path": "/legal", "responses": [{"status": 400, "body": "no"}]})
    return rig
