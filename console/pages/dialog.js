// dialog: asks before something is changed, and shows why it was not.
import { add, h, replace } from "./dom.js";
import { values } from "./form.js";
import { t } from "./texts.js";

// Shows a dialog; `content` gets a function that closes it with a result.
export function open(title, content) {
  return new Promise((done) => {
    let result = null;
    const before = document.activeElement;
    const box = h("dialog", { "aria-label": title, onclose: () => {
      box.remove();
      before?.focus?.();
      done(result);
    } });
    const close = (value = null) => {
      result = value;
      box.close();
    };
    add(box, h("h2", null, title), content(close));
    document.body.append(box);
    box.showModal();
  });
}

// Asks, then acts: {title, text, fields, action, danger, act(values)}. The dialog stays until the act is done, and
// shows its error. Resolves with the act's result, or null.
export function ask({ title, text, fields = [], action, danger = false, act }) {
  return open(title, (close) => {
    const error = h("p", { class: "note bad", role: "alert", hidden: true });
    const button = h("button", { class: `main ${danger ? "danger" : ""}` }, action);
    const form = h("form", { class: "form", onsubmit: async (e) => {
      e.preventDefault();
      button.disabled = true;
      error.hidden = true;
      for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
      try {
        close((await act(values(form))) ?? true);
      } catch (problem) {
        const input = problem.field && form.querySelector(`[name="${CSS.escape(problem.field)}"]`);
        replace(error, problem.message);
        error.hidden = false;
        button.disabled = false;
        if (input) {
          input.setAttribute("aria-invalid", "true");
          input.focus();
        }
      }
    } },
    text && h("p", null, text), fields, error,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => close() }, t`Cancel`), button));
    return form;
  });
}

// Shows a secret that exists only here.
export const secret = (title, text, value, copyButton) => open(title, (close) => h("div", { class: "form" },
  h("p", null, text), h("pre", { class: "block" }, value),
  h("div", { class: "buttons" }, copyButton, h("button", { class: "main", onclick: () => close(true) }, t`I have stored it`))));
