// The tokens of a response: whether each was forced, masked or free, and the automaton's phase.
import { by, element } from "../dom.js";

const KINDS = {
  forced: "forced: one token was allowed",
  masked: "masked: the grammar allowed some tokens",
  free: "free: all text was allowed",
};
const PHASES = {
  thinking: "reasoning",
  content: "content",
  format: "constrained content",
  tool_call: "call",
  select: "after a call",
  end: "end of the turn",
};
const NAMES = Object.keys(PHASES);

export class Track {
  constructor() {
    this.tokens = [];
    this.list = by("play-tokens");
    this.phases = by("play-phases");
    this.list.replaceChildren();
    this.phases.replaceChildren();
    this.list.hidden = true;
    this.list.removeAttribute("aria-activedescendant");
    by("play-legend").hidden = true;
    by("play-token").textContent = "";
    this.chosen = -1;
    this.list.onkeydown = (event) => this.#key(event);
    this.list.onclick = (event) => {
      const found = event.target.closest("[role=option]");
      if (found) this.#choose([...this.list.children].indexOf(found));
    };
  }

  // Tokens that are sampled again replace those of an invalid call.
  add(trace) {
    if (this.list.hidden) {
      this.list.hidden = false;
      legend();
    }
    for (const token of trace) {
      while (this.tokens.length > token.at) this.#drop();
      this.tokens.push(token);
      const phase = NAMES.indexOf(token.phase);
      this.list.append(
        element(
          "span",
          {
            role: "option",
            id: `token-${token.at}`,
            class: `token ${token.kind} phase-${phase}`,
            title: describe(token),
            "aria-selected": "false",
          },
          visible(token.text),
        ),
      );
      this.phases.append(element("span", { class: `phase-${phase}`, title: PHASES[token.phase] }));
    }
    this.phases.setAttribute("aria-label", `Phases of ${this.tokens.length} tokens: ${summary(this.tokens)}`);
  }

  #drop() {
    this.tokens.pop();
    this.list.lastChild.remove();
    this.phases.lastChild.remove();
    if (this.chosen >= this.tokens.length) this.chosen = -1;
  }

  #key(event) {
    const last = this.tokens.length - 1;
    const places = {
      ArrowRight: Math.min(last, this.chosen + 1),
      ArrowLeft: Math.max(0, this.chosen - 1),
      Home: 0,
      End: last,
    };
    if (!Object.hasOwn(places, event.key) || last < 0) return;
    event.preventDefault();
    this.#choose(places[event.key]);
  }

  #choose(at) {
    this.list.children[this.chosen]?.setAttribute("aria-selected", "false");
    this.chosen = at;
    const option = this.list.children[at];
    option.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
    by("play-token").textContent = `Token ${at + 1} of ${this.tokens.length}: ${describe(this.tokens[at])}`;
  }
}

function describe(token) {
  const allowed = `${token.allowed.toLocaleString("en")} token${token.allowed === 1 ? "" : "s"} allowed`;
  return `${JSON.stringify(token.text)} (${token.id}), ${token.kind}, ${allowed}, ${PHASES[token.phase]}`;
}

// Space and line ends would not be seen.
const visible = (text) => text.replaceAll("\n", "⏎").replaceAll(" ", "·") || "∅";

function summary(tokens) {
  const runs = [];
  for (const token of tokens) {
    if (runs.at(-1)?.phase === token.phase) runs.at(-1).count += 1;
    else runs.push({ phase: token.phase, count: 1 });
  }
  return runs.map((run) => `${run.count} ${PHASES[run.phase]}`).join(", ");
}

function legend() {
  const kinds = Object.entries(KINDS).map(([kind, text]) =>
    element("li", {}, element("span", { class: `token ${kind}`, "aria-hidden": "true" }, "abc"), ` ${text}`),
  );
  const phases = NAMES.map((name, at) =>
    element("li", {}, element("span", { class: `swatch phase-${at}`, "aria-hidden": "true" }), ` ${PHASES[name]}`),
  );
  by("play-legend").replaceChildren(element("ul", {}, ...kinds), element("ul", {}, ...phases));
  by("play-legend").hidden = false;
}
