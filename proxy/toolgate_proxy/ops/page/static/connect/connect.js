import { address, key, shownModels } from "../api.js";
import { by, element } from "../dom.js";
import { snippets, windowOf } from "./snippets.js";

let started = false;

export function show() {
  if (!started) {
    started = true;
    for (const id of ["connect-model", "connect-key"]) by(id).addEventListener("change", draw);
  }
  draw();
}

function draw() {
  const model = by("connect-model").value || "MODEL";
  const filled = by("connect-key").checked ? key() : "";
  const made = snippets(address(), model, windowOf(shownModels.get(model)), filled);
  by("snippets").replaceChildren(...made.map(([title, text]) => shown(title, text)));
}

function shown(title, text) {
  const button = element("button", { type: "button", "aria-label": `Copy: ${title}` }, "Copy");
  const state = element("span", { role: "status", class: "quiet" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      state.textContent = "Copied.";
    } catch {
      state.textContent = "The browser did not allow it. Select the text instead.";
    }
  });
  const head = element("header", {}, element("h2", {}, title), element("span", {}, state, " ", button));
  const code = element("pre", { tabindex: "0", "aria-label": title, role: "region" }, element("code", {}, text));
  return element("div", { class: "snippet", "data-snippet": title }, head, code);
}
