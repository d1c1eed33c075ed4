"""A history as years would leave it: events, their deliveries, attempts and dead letters, written into the files
of the processes by SQL. `w0` to `w9999` are its workspaces; `rare` has one event in a million; one event in a
million was a duplicate, one in 100,000 has the type `issue.rare`, one delivery in ten was refused."""

import contextlib
import json
import pathlib
import sqlite3
import time

from rig import Rig, wait_for

TOKEN = "an-admin-token-of-the-file"

WORKSPACES = 10_000
NUMBERS = ("WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c "
           "WHERE n < :count) ")
ID = "printf('evt_0%025d', {})"


@contextlib.contextmanager
def database(rig, name):
    """Written to without care, its indexes made at the end."""
    with contextlib.closing(sqlite3.connect(rig.state_dir / f"{name}.db")) as db:
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF",
                       "cache_size = -2000000"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        indexes = db.execute("SELECT name, sql FROM sqlite_master WHERE type = "
                             "'index' AND sql IS NOT NULL").fetchall()
        for index, _ in indexes:
            db.execute(f"DROP INDEX {index}")
        with db:
            yield db
        for _, sql in indexes:
            db.execute(sql)
        db.commit()


def fill_ingress(rig, how):
    with database(rig, "ingress") as db:
        db.execute("INSERT INTO archive(n, event_id, source, received_ms, "
                   f"remote, secret, headers, body) {NUMBERS} SELECT n, "
                   f"{ID.format('n')}, 'plane', :now - (:count - n), "
                   "'127.0.0.1', 0, x'', zeroblob(64) FROM c", how)
        db.execute("INSERT INTO archive_ids SELECT event_id, n FROM archive "
                   "WHERE n % 64 = 2")
        db.execute("UPDATE link_out SET next = :count + 1, cursor = :count", how)


def fill_sequencer(rig, how):
    """One in a million was a duplicate, one in 100,000 of a type of its own; the
    last workspaces have few."""
    with database(rig, "sequencer") as db:
        crm, = db.execute("SELECT id FROM endpoints WHERE name = 'crm'"
                          ).fetchone()
        how = {**how, "crm": crm}
        db.execute(
            "INSERT INTO events(n, id, source, provider_id, type, workspace, "
            f"received_ms, taken_ms, status, sequence) {NUMBERS} SELECT n, "
            f"{ID.format('n')}, 'plane', CASE n % 10 WHEN 0 THEN 'p-' || n END, "
            "CASE n % 100000 WHEN 7 THEN 'issue.rare' ELSE 'issue.updated' END, "
            "CASE n % 1000000 WHEN 9 THEN 'rare' ELSE 'w' || (n % :spaces) END, "
            ":now - (:count - n), :now - (:count - n), "
            "CASE n % 1000000 WHEN 11 THEN 1 ELSE 0 END, n / :spaces + 1 "
            "FROM c", how)
        db.execute(
            "INSERT INTO deliveries(event, endpoint, status, lane, route_order, "
            "attempts, first_ms, at_ms, duration_ms, http_status, deliverer, "
            f"reason) {NUMBERS} SELECT n, :crm, CASE n % 10 WHEN 3 THEN 4 "
            "ELSE 3 END, -1, n, 1, :now - (:count - n), :now - (:count - n), 5, "
            "CASE n % 10 WHEN 3 THEN 400 ELSE 200 END, 'deliverer-1', "
            "CASE n % 10 WHEN 3 THEN 'rejected' ELSE '' END "
            "FROM c WHERE n % 1000000 <> 11", how)
        lane, = db.execute("SELECT max(lane) FROM workspaces").fetchone()
        db.execute("INSERT INTO workspaces(name, sequence, clock, routed, lane) SELECT 'w' || (n % :spaces), max(sequence), "
                   "json_object('issue.updated', count(*)), x'', :lane + 1 + n % :spaces FROM events WHERE n > 1 AND workspace LIKE 'w%' "
                   "AND workspace <> 'ws-1' GROUP BY n % :spaces", {**how, "lane": lane})
        db.execute("UPDATE link_in SET n = :count WHERE peer = 'ingress'", how)
        for key in ("next_route_order", "reserved_event"):
            db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)",
                       (key, how["count"] + 1024))


def fill_deliverer(rig, how):
    """Its attempts are its log: the sequencer has all of them."""
    with database(rig, "deliverer-1") as db:
        last, = db.execute("SELECT max(n) FROM attempts").fetchone()
        how = {**how, "last": last}
        db.execute(
            "INSERT INTO attempts(n, attempt_id, grant_id, endpoint, event_id, "
            "outcome, http_status, error, reason, at_ms, duration_ms, attempts, "
            "first_ms, next_ms, response, headers, dns_us, connect_us, tls_us, "
            f"first_byte_us, total_us, http_version, sends) {NUMBERS} SELECT "
            f":last + n - 1, n, 1, 'crm', {ID.format('n')}, 1, 200, '', '', "
            ":now - (:count - n), 5, 1, :now, 0, x'', x'', 0, 0, 0, 0, 0, 2, 1 "
            "FROM c", how)
        db.execute("UPDATE link_out SET next = :last + :count, "
                   "cursor = :last + :count - 1", how)
    with contextlib.closing(sqlite3.connect(
            rig.state_dir / "sequencer.db")) as db, db:
        db.execute("UPDATE link_in SET n = :last + :count - 1 WHERE peer = "
                   "'deliverer-1'", how)


def fill_dlqd(rig, how):
    with database(rig, "dlqd") as db:
        db.execute(
            "INSERT INTO dead_letters(id, generation, state, sequencer, event_id, endpoint, "
            "reason, source, provider_id, type, workspace, received_ms, "
            "sequence, previous, clock, attempts, first_ms, dead_ms, "
            "last_http_status, last_error, last_response, moved_ms) "
            f"{NUMBERS} SELECT 'dlq_' || substr({ID.format('n * 10 + 3')}, 5) || "
            f"'-crm', 1, 'dead', 'sequencer', {ID.format('n * 10 + 3')}, 'crm', "
            "CASE n % 100000 WHEN 5 THEN 'budget_time' ELSE 'rejected' END, "
            "'plane', '', 'issue.updated', CASE n % 250000 WHEN 9 THEN 'rare' "
            "ELSE 'w' || (n % :spaces) END, :now, n, 0, '', 1, :now, "
            ":now - (:count - n), 400, 'answered 400', x'', :now FROM c", how)
        db.execute("INSERT INTO contents(dead_letter, headers, body) "
                   "SELECT n, x'', zeroblob(200) "
                   "FROM dead_letters")
        db.execute("INSERT INTO history(dead_letter, at_ms, from_state, to_state, "
                   "what) SELECT n, dead_ms, '', 'dead', 'rejected' "
                   "FROM dead_letters")


def fill(rig, events, dead_letters):
    """Into a rig without `history`; it is started, makes what rows need, and is stopped again."""
    rig.start()
    rig.receiver.wait(rig.accept())
    rig.settle()
    rig.stop()
    now = int(time.time() * 1000)
    for into, count in ((fill_ingress, events), (fill_sequencer, events), (fill_deliverer, events),
                        (fill_dlqd, dead_letters)):
        into(rig, {"count": count, "now": now, "spaces": WORKSPACES})


def wait_summarised(rig):
    """What was filled by SQL has no summaries of its blocks yet; in life they are written as events come."""
    def is_so():
        row, = rig.rows("sequencer", "SELECT (SELECT max(block) FROM search_filters) AS b, (SELECT max(n) FROM events) AS n")
        return row["b"] is not None and row["b"] >= row["n"] // 1024 - 1

    wait_for(is_so, 1200, "the blocks to be summarised")


def event_id(n):
    return f"evt_0{n:025}"


def pipeline(events, dead_letters, state=None, **config):
    """A rig with the console and a history, started. In the folder `state` the files are kept, and found again."""
    rig = Rig({"history": {"keep": "3650d"}, "dlq": {"keep": "3650d"}, "ingress": {"archive": {"keep": "3650d"}},
               "console": {"tokens": [TOKEN]}, **config}, console=True)
    rig.start_s = 120
    if state:
        rig.state_dir = pathlib.Path(state).resolve()
        rig.config["state_dir"] = str(rig.state_dir)
        rig.write_config()
    if not (rig.state_dir / "dlqd.db").exists():
        fill(rig, events, dead_letters)
    rig.start()
    wait_summarised(rig)
    return rig


# ---- its pages ----

def pages(events, dead_letters):
    """{path: what is there when the page has all that it shows at once}"""
    row = "main tbody tr"
    some = row + ", main .more button"  # a search may be bounded before it finds one
    return {
        "/": "main svg",
        "/events": row,
        "/events?workspace=w17": some,
        "/events?workspace=none": "main .state, " + some,
        "/events?type=issue.rare": some,
        f"/events/{event_id(events // 2)}": "main svg",
        "/dead-letters": row,
        "/dead-letters?workspace=w17": some,
        f"/dead-letters/dlq_{event_id(dead_letters // 2 * 10 + 3)[4:]}-crm": "main .card",
        "/endpoints": row,
        "/endpoints/crm": "main svg",
        "/workspaces": row,
        "/workspaces/w17": "main .card",
        "/rejects": "main .state, main tbody tr",
        "/alerts": "main .state, main tbody tr",
        "/jobs": "main .state",
        "/system": row,
        "/sources": row,
        "/sources/plane": "main .card",
        "/event-types": "main .state, main tbody tr",
        "/audit": "main .state, main tbody tr",
        "/tokens": "main .state, main tbody tr",
    }


def signed_in(browser, base):
    tab = browser.tab()
    tab.open(base + "/events")
    tab.fill("input[name=token]", TOKEN)
    tab.key("Enter")
    tab.wait("document.querySelector('.frame h1')", "a page")
    return tab


def opened_ms(tab, url, ready, first=False):
    """From the request for the document to all that the page shows at once. The tab has a page of the console, so the
    browser does not start a process for it. `first`: the browser has no file of the console yet."""
    if first:
        tab.ask("Network.clearBrowserCache")
    look = tab.ask("Page.addScriptToEvaluateOnNewDocument", source=f"""(() => {{
        const look = () => {{
            if (document.querySelector({json.dumps(ready)}) && !document.querySelector("[aria-busy=true]"))
                window.readyAt = performance.now();
            else
                setTimeout(look, 1);
        }};
        look();
    }})()""")["identifier"]
    tab.open(url)
    took = tab.wait(f"location.href === {json.dumps(url)} && window.readyAt", url)
    tab.ask("Page.removeScriptToEvaluateOnNewDocument", identifier=look)
    return took


def shown_ms(tab, path, ready):
    """From following a link to all that the page shows at once."""
    return tab.js(f"""(async () => {{
        const began = performance.now(), until = began + 10000;
        history.pushState(null, "", {json.dumps(path)});
        if (location.pathname + location.search !== {json.dumps(path)}) throw new Error("the browser ignored pushState()");
        dispatchEvent(new PopStateEvent("popstate"));
        do {{
            await new Promise((r) => setTimeout(r, 1));
            if (performance.now() > until) throw new Error({json.dumps(path + " is not there: ")} + document.body.innerText);
        }} while (!document.querySelector({json.dumps(ready)}) || document.querySelector("[aria-busy=true]"));
        return performance.now() - began;
    }})()""")


def transferred(tab):
    """(bytes, requests) that the page took until now, with headers."""
    return tuple(tab.js("""(() => {
        const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
        return [all.reduce((sum, e) => sum + e.transferSize, 0), all.filter((e) => e.transferSize).length];
    })()"""))


def heap_bytes(tab):
    """Of the tab's scripts, after what nobody refers to is gone."""
    tab.ask("HeapProfiler.collectGarbage")
    return tab.ask("Runtime.getHeapUsage")["usedSize"]
