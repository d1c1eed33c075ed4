// portal: one workspace's pages for a customer's own users: exchanges the secret of a link for a token, which is only in
// the memory of this page, shows the pages, and asks the embedding page for a new link before the token ends.
import { changes, enterPortal, leavePortal, openPortal, signedIn } from "./api.js";
import { useColour } from "./brand.js";
import { add, h, replace } from "./dom.js";
import { help, startKeyboard } from "./keyboard.js";
import { loadOthers, page, showModule } from "./lazy.js";
import { show, startBelow, startRouter, stop, titled } from "./router.js";
import { empty, failed } from "./states.js";
import { chooseLanguage, t } from "./texts.js";
import { clockOf } from "./time.js";

const BEFORE_MS = 60 * 1000; // the end of the token: ask for a new link …
const AGAIN_MS = 5 * 1000; // … and again
const PATIENCE_MS = 10 * 1000; // after that, without a token, the reader is told

page("/", () => import("./page_events.js"));
page("/events", () => import("./page_events.js"));
page("/events/:id", () => import("./page_event.js"));
page("/endpoints", () => import("./page_endpoints.js"));
page("/endpoints/:name", () => import("./page_endpoint.js"));
page("/dead-letters", () => import("./page_dead_letters.js"));
page("/dead-letters/:id", () => import("./page_dead_letter.js"));

const framed = parent !== window;
let about = null; // {name, colour, origins}
let endsAt = 0; // of the token
let askedAt = 0; // for a link, the first time since the last one came; 0: none is asked for
let started = false;
let away = false; // the console does not respond

// The secret leaves the address before anything else happens.
function takeLink() {
  const link = /^#link=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return link;
}

// ---- the frame ----

const content = h("main", { class: "content", id: "content" });
const nav = h("nav", { class: "nav" });
const where = h("span", { class: "workspace" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const frame = h("div", { class: "portal" });

function say(text) {
  replace(banner, text);
  banner.hidden = !text;
}

function buildFrame() {
  nav.setAttribute("aria-label", t`pages`);
  add(frame, h("header", { class: "top" }, h("span", { class: "brand" }, about.name), nav, where,
    h("button", { class: "small", onclick: help, title: t`keys (?)` }, t`Keys`)), banner, content);
}

function drawNav() {
  const path = location.pathname.replace(/\/$/, "");
  replace(nav, [["/events", t`Events`], ["/dead-letters", t`Dead letters`], ["/endpoints", t`Endpoints`]].map(([to, name]) => {
    const at = `/portal${to}`;
    const here = path === at || path.startsWith(`${at}/`) || (to === "/events" && path === "/portal");
    return h("a", { href: to, "aria-current": here ? "page" : null }, name);
  }));
  replace(where, signedIn().workspace, signedIn().readOnly && ` · ${t`only to read`}`);
}

function showPage(page, context) {
  if (!signedIn()) return; // a link is asked for
  if (!frame.isConnected) {
    document.body.replaceChildren();
    add(document.body, h("a", { class: "skip", href: "#content" }, t`Skip to the content`), frame);
  }
  drawNav();
  const place = h("div", { class: "page" });
  replace(content, place);
  scrollTo(0, 0);
  if (!page) {
    titled(t`Not found`);
    replace(place, empty(t`There is no such page`, h("p", null, h("a", { href: "/events" }, t`Go to the events`))));
    return;
  }
  showModule(place, page, context, titled, () => {
    openPortal().catch(() => {}); // when the console is away, the banner says so, and this page heals when it is back
  });
}

// Nothing of the workspace stays on the page.
function showEnd(text) {
  stop();
  leavePortal();
  document.querySelector("dialog")?.remove();
  titled(t`Ask for a new link`);
  replace(document.body, h("main", { class: "sign-in" }, h("div", { class: "card" },
    h("h1", null, about.name), h("p", { role: "alert" }, text),
    h("p", { class: "soft" }, framed ? t`Load the page again that shows this one.` : t`Go back to where you found the link, and open a new one.`))));
}

// ---- links and tokens ----

async function enter(link) {
  let now;
  try {
    now = await enterPortal(link);
  } catch (e) {
    if (!signedIn()) showEnd(e.status === 401 ? t`This link was used, or has expired: a link works once, for 10 minutes.` : e.message);
    return;
  }
  askedAt = 0;
  endsAt = Date.now() + now.expires_in * 1000;
  say("");
  if (!started) startRouter(showPage);
  else if (!now.same || !frame.isConnected) show();
  started = true;
}

// Only a page of a configured origin hears it.
function ask() {
  askedAt ||= Date.now();
  const own = [...(location.ancestorOrigins ?? [])][0];
  for (const origin of about.origins) if (!own || own === origin) parent.postMessage({ grapnel: "portal", want: "link" }, origin);
}

// {grapnel: "portal", link: the URL of a link, or its secret}
addEventListener("message", (e) => {
  if (!framed || e.source !== parent || !about?.origins.includes(e.origin) || e.data?.grapnel !== "portal" || !askedAt) return;
  const link = /(?:^|#link=)([0-9a-f]{64})$/.exec(String(e.data.link))?.[1];
  if (link) enter(link);
});

let nextAsk = 0;
let nextTry = 0;

function look() {
  const now = Date.now();
  if (away && now >= nextTry) {
    nextTry = now + AGAIN_MS;
    openPortal().catch(() => {});
  }
  const left = endsAt - now;
  if (left > BEFORE_MS && signedIn()) return;
  if (framed && now >= nextAsk) {
    nextAsk = now + AGAIN_MS;
    ask();
  }
  if (signedIn() && left > 0) {
    if (!framed) say(t`This page ends at ${clockOf(endsAt)}: ask for a new link.`);
  } else if (!framed || now - askedAt > PATIENCE_MS) {
    if (!document.querySelector(".sign-in")) showEnd(started ? t`This page has ended.` : t`This page needs a link.`);
  }
}

changes.addEventListener("signed-out", () => {
  endsAt = 0;
  look();
});
changes.addEventListener("unreachable", () => {
  away = true;
  say(t`There is no connection since ${clockOf(Date.now())}. This page shows what it knew then, and tries again by itself.`);
});
changes.addEventListener("reachable", () => {
  away = false;
  say("");
  if (started && signedIn()) show();
});
// Somebody writes the address of a new link into this tab.
addEventListener("hashchange", () => {
  const link = takeLink();
  if (link) enter(link);
});

const first = takeLink();
startKeyboard();
try {
  await chooseLanguage();
  about = await openPortal();
  startBelow("/portal", about.name);
  useColour(about.colour);
  buildFrame();
  if (first) await enter(first);
  else look();
  setInterval(look, 1000);
  loadOthers();
} catch (e) {
  replace(document.body, failed(e, () => location.reload()));
}
