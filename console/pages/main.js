// main: signs in, shows the frame with the navigation, and the page of the address in it.
import { changes, isTenant, may, readSession, signedIn, signOut } from "./api.js";
import { add, h, replace } from "./dom.js";
import { help, startKeyboard } from "./keyboard.js";
import { go, href, route, show, startRouter } from "./router.js";
import { alone, failed } from "./states.js";
import { clockOf, zone } from "./time.js";
import * as overview from "./page_overview.js";
import * as events from "./page_events.js";
import * as event from "./page_event.js";
import * as endpoints from "./page_endpoints.js";
import * as endpoint from "./page_endpoint.js";
import * as deadLetters from "./page_dead_letters.js";
import * as deadLetter from "./page_dead_letter.js";
import * as workspaces from "./page_workspaces.js";
import * as workspace from "./page_workspace.js";
import * as eventTypes from "./page_event_types.js";
import * as eventType from "./page_event_type.js";
import * as sources from "./page_sources.js";
import * as source from "./page_source.js";
import * as rejects from "./page_rejects.js";
import * as alerts from "./page_alerts.js";
import * as jobs from "./page_jobs.js";
import * as audit from "./page_audit.js";
import * as system from "./page_system.js";
import * as oneProcess from "./page_process.js";
import * as tokens from "./page_tokens.js";
import * as signInPage from "./page_sign_in.js";

// A page: {title, tenant, needs, show(place, context)}.
route("/sign-in", signInPage);
route("/", overview);
route("/events", events);
route("/events/:id", event);
route("/endpoints", endpoints);
route("/endpoints/:name", endpoint);
route("/dead-letters", deadLetters);
route("/dead-letters/:id", deadLetter);
route("/workspaces", workspaces);
route("/workspaces/:workspace", workspace);
route("/event-types", eventTypes);
route("/event-types/:name", eventType);
route("/sources", sources);
route("/sources/:name", source);
route("/rejects", rejects);
route("/rejects/:id", rejects);
route("/alerts", alerts);
route("/jobs", jobs);
route("/system", system);
route("/system/:process", oneProcess);
route("/audit", audit);
route("/tokens", tokens);

const NAV = [["/", "Overview", overview], ["/events", "Events", events],
  ["/dead-letters", "Dead letters", deadLetters], ["/endpoints", "Endpoints", endpoints],
  ["/workspaces", "Workspaces", workspaces], ["/sources", "Sources", sources], ["/event-types", "Event types", eventTypes], ["/rejects", "Refused requests", rejects], ["/alerts", "Alerts", alerts],
  ["/jobs", "Jobs", jobs], ["/system", "System", system], ["/audit", "Audit", audit], ["/tokens", "Tokens", tokens]];

// `needs`: what one must be permitted to do. `tenant`: also for the token of a workspace.
const isFor = (page) => (isTenant() ? page.tenant : !page.needs || may(page.needs));

const content = h("main", { class: "content", id: "content" });
const nav = h("nav", { class: "nav", "aria-label": "pages" });
const who = h("div", { class: "who" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const brand = h("a", { class: "brand", href: "/" }, h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "" }), "Grapnel");
const frame = h("div", { class: "frame" }, h("header", { class: "side" }, brand, nav, who), h("div", null, banner, content));

function drawNav() {
  const path = location.pathname;
  replace(nav, NAV.filter(([, , page]) => isFor(page)).map(([to, name]) =>
    h("a", { href: to, "aria-current": (to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`)) ? "page" : null }, name)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const s = signedIn();
  replace(who, h("span", { class: "name" }, s.name, h("br"), h("span", { class: "soft" },
    s.workspace ? `workspace ${s.workspace}` : s.role, ` · ${zone()}`)),
  h("span", { class: "row" }, h("button", { class: "plain small", onclick: help, title: "keys of the keyboard (?)" }, "Keys"),
    h("button", { class: "plain small", onclick: leave }, "Sign out")));
}

async function leave() {
  try {
    await signOut();
  } catch { /* the cookie may be gone already */ }
  go("/sign-in");
}

// The heading is named first, so that a screen reader says which page this is.
function showPage(page, context) {
  if (page === signInPage) {
    document.title = "Sign in · Grapnel";
    document.body.replaceChildren();
    page.show(add(document.body, []), context);
    return;
  }
  if (!signedIn()) {
    go(href("/sign-in", { next: location.pathname + location.search }), { replace: true });
    return;
  }
  if (isTenant() && page === overview) {
    go("/events", { replace: true });
    return;
  }
  if (!frame.isConnected) {
    document.body.replaceChildren();
    add(document.body, h("a", { class: "skip", href: "#content" }, "Skip to the content"), frame);
  }
  drawNav();
  const place = h("div", { class: "page" });
  replace(content, place);
  scrollTo(0, 0);
  if (page && !isFor(page)) {
    document.title = "Not for you · Grapnel";
    replace(place, alone("This page needs another role", h("p", null, "Sign out, and sign in with a token that has it. ", h("a", { href: "/events" }, "Go to the events"))));
    return;
  }
  if (!page) {
    document.title = "Not found · Grapnel";
    replace(place, alone("There is no such page", h("p", null, h("a", { href: "/" }, "Go to the overview"))));
    return;
  }
  document.title = `${page.title(context.params)} · Grapnel`;
  try {
    page.show(place, context);
  } catch (e) {
    replace(place, failed(e, show, true));
  }
}

changes.addEventListener("signed-out", () =>
  go(href("/sign-in", { next: location.pathname + location.search, why: "ended" })));
changes.addEventListener("unreachable", () => {
  replace(banner, `The console does not respond since ${clockOf(Date.now())}. This page shows what it knew then, and tries again by itself.`);
  banner.hidden = false;
});
changes.addEventListener("reachable", () => {
  banner.hidden = true;
});

// While the console is away, pages that do not ask by themselves heal, too.
setInterval(() => {
  if (!banner.hidden && signedIn()) readSession().then((s) => s && show(), () => {});
}, 3000);

startKeyboard();
try {
  await readSession();
  startRouter(showPage);
} catch (e) {
  replace(document.body, failed(e, () => location.reload(), true));
}
