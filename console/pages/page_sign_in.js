// page_sign_in: signs in with a token, or with a link that is used once.
import { signIn, signedIn } from "./api.js";
import { add, h, replace } from "./dom.js";
import { field } from "./form.js";
import { go } from "./router.js";

export const title = () => "Sign in";

// Only pages of ours: "//other.example" is another site.
const next = (query) => {
  const to = query.get("next") || "/";
  return /^\/(?![/\\])/.test(to) ? to : "/";
};

export function show(place, { query }) {
  const link = /^#link=([0-9a-f]+)$/.exec(location.hash)?.[1];
  // The secret leaves the address before anything else happens.
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (signedIn() && !link) {
    go(next(query), { replace: true });
    return;
  }

  const note = h("p", { class: "note bad", role: "alert", hidden: true });
  const button = h("button", { class: "main" }, "Sign in");
  const token = field({ name: "token", label: "Token", kind: "password", required: true, mono: true });
  const form = h("form", { class: "form", onsubmit: (e) => {
    e.preventDefault();
    begin({ token: form.elements.token.value.trim() });
  } }, token, button);

  function say(text, look = "bad") {
    replace(note, text);
    note.className = `note ${look}`;
    note.hidden = false;
  }

  async function begin(secret) {
    button.disabled = true;
    try {
      await signIn(secret);
      go(next(query), { replace: true });
    } catch (e) {
      button.disabled = false;
      form.elements.token.value = "";
      if (e.status === 401 && secret.link) say("This link was used, or has expired: a link works once, for 10 minutes. Make another one with `grapnel console link`, or use a token.");
      else if (e.status === 401) say("This token is unknown, or it was revoked or has expired.");
      else if (e.status === 429) say(`Too many wrong tokens came from this address. Wait ${e.retryAfter || 10} s.`);
      else say(e.message);
      form.elements.token.focus();
    }
  }

  add(place, h("main", { class: "sign-in" }, h("div", { class: "card" },
    h("div", { class: "row" }, h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "" }), h("h1", { tabindex: "-1" }, "Grapnel")),
    note, form,
    h("p", { class: "soft small" }, "On the machine itself ", h("code", null, "grapnel console link"), " prints a link that signs in without a token; ",
      h("code", null, "grapnel tokens create NAME --role viewer"), " makes a token."))));
  if (query.get("why") === "ended") say("Your session has ended: sign in again.", "warn");
  if (link) begin({ link });
  else form.elements.token.focus();
}
