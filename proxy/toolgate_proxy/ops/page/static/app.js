import { key, models, setKey } from "./api.js";
import { show as showConnect } from "./connect/connect.js";
import { by, fill } from "./dom.js";
import { show as showSchema } from "./inspector.js";
import { show as showPlayground } from "./playground/playground.js";
import { show as showStatus } from "./status.js";

const VIEWS = { status: showStatus, playground: showPlayground, schema: showSchema, connect: showConnect };
const SELECTS = ["play-model", "schema-model", "connect-model"];

function open() {
  const wanted = location.hash.slice(1);
  const view = Object.hasOwn(VIEWS, wanted) ? wanted : "status";
  for (const name of Object.keys(VIEWS)) by(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${by(view).querySelector("h1").textContent} – Toolgate`;
  VIEWS[view]();
}

async function update() {
  const state = by("key-state");
  by("key-where").hidden = Boolean(key());
  let names = [];
  state.className = "";
  state.textContent = key() ? "" : "Kept in this tab only.";
  try {
    names = await models();
    if (key()) state.textContent = "Key accepted.";
  } catch (error) {
    by("key-where").hidden = false;
    state.className = "error";
    state.textContent = error.message;
  }
  for (const select of SELECTS) fill(by(select), names);
  open();
}

by("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(by("key").value.trim());
  by("key").value = "";
});
by("key-forget").addEventListener("click", () => setKey(""));
document.addEventListener("toolgate:key", update);
addEventListener("hashchange", () => {
  if (location.hash === "#main") return; // the skip link
  open();
  scrollTo(0, 0);
  by("main").focus({ preventScroll: true });
});
update();
