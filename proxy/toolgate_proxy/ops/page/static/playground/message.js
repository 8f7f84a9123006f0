// The message of a streamed chat completion, as far as it has arrived.
import { element } from "../dom.js";

export class Message {
  constructor(place) {
    this.reasoning = element("pre", { class: "wrap" });
    this.content = element("pre", { class: "wrap" });
    this.calls = [];
    this.list = element("div");
    this.finish = element("p", { class: "quiet", role: "status" });
    place.replaceChildren(this.list, this.finish);
  }

  add(choice) {
    const delta = choice.delta;
    if (delta.reasoning_content) this.#append(this.reasoning, "Reasoning", delta.reasoning_content);
    if (delta.content) this.#append(this.content, "Content", delta.content);
    for (const call of delta.tool_calls ?? []) this.#call(call);
    if (choice.finish_reason) this.finish.textContent = `finish_reason: ${choice.finish_reason}`;
  }

  #append(place, title, text) {
    if (!place.parentNode) this.list.append(element("div", {}, element("h4", {}, title), place));
    place.append(text);
  }

  #call(call) {
    if (!this.calls[call.index]) {
      const name = call.function?.name ?? call.custom?.name ?? "";
      const text = element("pre", { class: "wrap" });
      this.calls[call.index] = text;
      this.list.append(element("div", {}, element("h4", {}, "Call of ", element("code", {}, name)), text));
    }
    this.calls[call.index].append(call.function?.arguments ?? call.custom?.input ?? "");
  }

  end() {
    if (!this.list.childNodes.length) this.list.append(element("p", { class: "quiet" }, "The message is empty."));
  }
}
