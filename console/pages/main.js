// main: signs in, shows the frame with the navigation, and the page of the address in it.
import { changes, isTenant, may, readSession, signedIn, signOut } from "./api.js";
import { add, h, replace } from "./dom.js";
import { help, startKeyboard } from "./keyboard.js";
import { loadOne, loadOthers, page, showModule } from "./lazy.js";
import { go, href, pageOf, show, startRouter } from "./router.js";
import { alone, failed } from "./states.js";
import { clockOf, zone } from "./time.js";
import * as signIn from "./page_sign_in.js"; // at once: the secret of a link must leave the address soon

// `needs`: what one must be permitted to do. `tenant`: also for the token of a workspace.
const signInPage = page("/sign-in", async () => signIn, { module: signIn });
const overview = page("/", () => import("./page_overview.js"));
const events = page("/events", () => import("./page_events.js"), { tenant: true });
page("/events/:id", () => import("./page_event.js"), { tenant: true });
const endpoints = page("/endpoints", () => import("./page_endpoints.js"), { tenant: true });
page("/endpoints/:name", () => import("./page_endpoint.js"), { tenant: true });
const deadLetters = page("/dead-letters", () => import("./page_dead_letters.js"), { tenant: true });
page("/dead-letters/:id", () => import("./page_dead_letter.js"), { tenant: true });
const workspaces = page("/workspaces", () => import("./page_workspaces.js"));
page("/workspaces/:workspace", () => import("./page_workspace.js"));
const eventTypes = page("/event-types", () => import("./page_event_types.js"));
page("/event-types/:name", () => import("./page_event_type.js"));
const sources = page("/sources", () => import("./page_sources.js"));
page("/sources/:name", () => import("./page_source.js"));
const rejects = page("/rejects", () => import("./page_rejects.js"));
page("/rejects/:id", () => import("./page_rejects.js"));
const alerts = page("/alerts", () => import("./page_alerts.js"));
const jobs = page("/jobs", () => import("./page_jobs.js"));
const system = page("/system", () => import("./page_system.js"));
page("/system/:process", () => import("./page_process.js"));
const audit = page("/audit", () => import("./page_audit.js"), { needs: "audit" });
const tokens = page("/tokens", () => import("./page_tokens.js"), { needs: "tokens" });

const NAV = [["/", "Overview", overview], ["/events", "Events", events],
  ["/dead-letters", "Dead letters", deadLetters], ["/endpoints", "Endpoints", endpoints],
  ["/workspaces", "Workspaces", workspaces], ["/sources", "Sources", sources], ["/event-types", "Event types", eventTypes], ["/rejects", "Refused requests", rejects], ["/alerts", "Alerts", alerts],
  ["/jobs", "Jobs", jobs], ["/system", "System", system], ["/audit", "Audit", audit], ["/tokens", "Tokens", tokens]];

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
    signIn.show(document.body, context);
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
  showModule(place, page, context, (text) => {
    document.title = `${text} · Grapnel`;
  }, () => {
    readSession().catch(() => {}); // when the console is away, the banner says so, and this page heals when it is back
  });
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
  await Promise.all([readSession(), loadOne(pageOf(location.pathname)).catch(() => {})]);
  startRouter(showPage);
  loadOthers(isFor);
} catch (e) {
  replace(document.body, failed(e, () => location.reload(), true));
}
