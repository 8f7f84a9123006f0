import { ask, key } from "./api.js";
import { by, drawing, element, row } from "./dom.js";

const INTERVAL = 3000;
const PLACES = {
  fleet: "for all gateways together",
  process: "in this process only",
  unavailable: "not now: Redis does not respond",
};
let timer = 0;

export function show() {
  clearTimeout(timer);
  update();
}

async function update() {
  if (by("status").hidden) return;
  if (document.hidden) {
    document.addEventListener("visibilitychange", update, { once: true });
    return;
  }
  const notice = by("status-notice");
  if (!key()) {
    by("status-content").hidden = true;
    refused("Enter the master key to see the status of this gateway.");
    return;
  }
  try {
    const [status, keys] = await Promise.all([ask("toolgate/status"), ask("toolgate/keys")]);
    if (!key()) return; // it was forgotten in the meantime
    notice.hidden = true;
    by("key-where").hidden = true;
    by("status-content").hidden = false; // the chart is drawn in its width
    draw(status, keys);
  } catch (error) {
    if (error.status) by("status-content").hidden = true;
    if (error.isOfKey || error.status === 403) {
      refused(error.status === 403 ? "This key is not the master key, which the status needs." : error.message);
      return; // until another key is entered
    }
    notice.hidden = false;
    notice.textContent = error.message;
  }
  clearTimeout(timer);
  timer = setTimeout(update, INTERVAL);
}

function refused(reason) {
  by("status-notice").hidden = false;
  by("status-notice").textContent = reason;
  by("key-where").hidden = false;
}

function draw(status, keys) {
  const backends = new Map(status.models.flatMap((each) => each.backends.map((b) => [b.url, b])));
  const up = [...backends.values()].filter((backend) => backend.up).length;
  const recent = status.recent.reduce((sum, minute) => sum + minute.requests, 0);
  tiles({
    "Backends up": `${up} of ${backends.size}`,
    "Requests in flight": sum(backends.values(), (backend) => backend.requests),
    [`Requests in ${status.recent.length} min`]: recent,
    Keys: status.database && !status.keys ? "in LiteLLM's database" : status.keys,
    "Limits are counted": PLACES[status.limits.counted],
    "Responses are kept": PLACES[status.responses],
    "Grammars are shared": status.fleet_cache ? "by all gateways, in Redis" : "no: each gateway compiles its own",
    "Version of Toolgate": status.versions.toolgate,
  });
  by("models").replaceChildren(...status.models.flatMap(modelRows));
  const others = Object.entries(status.others);
  by("others-table").hidden = !others.length;
  by("others").replaceChildren(...others.map(([name, deployments]) => row(name, deployments.join(", "))));
  chart(status.recent);
  by("minutes").replaceChildren(...status.recent.toReversed().map(minuteRow));
  drawKeys(keys, status.database);
  by("litellm-ui").hidden = !status.database;
}

function tiles(values) {
  const made = Object.entries(values).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, String(value))),
  );
  by("tiles").replaceChildren(...made);
}

function modelRows(model) {
  return model.backends.map((backend) => {
    const about = backend.description;
    const state = element("span", { class: `state ${backend.up ? "up" : "down"}` }, backend.up ? "● up" : "✕ down");
    const cell = element("div", {}, state);
    if (backend.error) cell.append(element("div", { class: "error" }, backend.error));
    const name = element("div", {}, model.model);
    if (model.reason) name.append(element("div", { class: "quiet" }, `LiteLLM's route: ${model.reason}`));
    return row(
      name,
      backend.url,
      cell,
      about?.dialect,
      about?.adapter,
      about?.vllm,
      number(about?.max_model_len?.toLocaleString("en") ?? "–"),
      backend.requests,
      number(backend.probe_ms === null ? "–" : `${backend.probe_ms.toFixed(1)} ms`),
    );
  });
}

function minuteRow(minute) {
  const times = minute.first_token_ms;
  return row(
    clock(minute.minute),
    minute.requests,
    minute.refused,
    minute.failed,
    minute.omitted,
    ...["p50", "p90", "p99"].map((name) => number(times ? `${times[name]} ms` : "–")),
  );
}

function chart(minutes) {
  const [width, height, left, bottom] = [Math.max(300, by("chart").clientWidth), 170, 40, 22];
  const most = Math.max(1, ...minutes.map((minute) => minute.requests));
  const slowest = Math.max(1, ...minutes.map((minute) => minute.first_token_ms?.p90 ?? 0));
  const step = (width - 2 * left) / minutes.length;
  const y = (part) => height - bottom - part * (height - bottom - 18);
  // Without a viewBox nothing is scaled: texts keep their size.
  const svg = drawing("svg", { class: "chart", height, role: "img" });
  const total = minutes.reduce((all, minute) => all + minute.requests, 0);
  svg.setAttribute("aria-label", `${total} requests in ${minutes.length} minutes, at most ${most} in one; first token p90 up to ${slowest.toFixed(0)} ms`);
  const points = [];
  minutes.forEach((minute, at) => {
    const x = left + at * step;
    const bad = minute.failed + minute.refused;
    const top = y(minute.requests / most);
    svg.append(drawing("rect", { class: "bar", x: x + 2, y: top, width: step - 4, height: height - bottom - top }));
    if (bad) {
      const badTop = y(bad / most);
      svg.append(drawing("rect", { class: "bar-bad", x: x + 2, y: badTop, width: step - 4, height: height - bottom - badTop }));
    }
    if (minute.first_token_ms) {
      const point = [x + step / 2, y(minute.first_token_ms.p90 / slowest)];
      points.push(point.join(","));
      svg.append(drawing("circle", { class: "dot", cx: point[0], cy: point[1], r: 3 }));
    }
    if (at % 5 === 4) svg.append(drawing("text", { x: x + step / 2, y: height - 6, "text-anchor": "middle" }, clock(minute.minute)));
  });
  svg.append(drawing("polyline", { class: "line", points: points.join(" ") }));
  svg.append(drawing("text", { x: 4, y: 12 }, `↑ ${most} requests/min`));
  if (points.length) svg.append(drawing("text", { x: width - 4, y: 12, "text-anchor": "end" }, `${slowest.toFixed(0)} ms ↑`));
  by("chart").replaceChildren(svg);
}

function drawKeys(list, database) {
  by("keys-table").hidden = !list.keys.length;
  const usage = list.usage ? "" : " Their use is not known, because there is no Redis or it does not respond.";
  const none = database ? "" : "There are no virtual keys. The command “toolgate keys create” makes one.";
  by("keys-note").textContent = list.keys.length ? `Use of today, in UTC.${usage}` : none;
  const named = (values) => Object.entries(values).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value.toLocaleString("en")}`).join(", ");
  by("keys").replaceChildren(
    ...list.keys.map((each) =>
      row(
        each.alias + (each.team ? ` (${each.team})` : ""),
        each.hints.join(", "),
        each.status,
        each.models.join(", ") || "all",
        named(each.limits) || "–",
        named(each.today) || "–",
        each.last_used ? new Date(each.last_used).toLocaleString() : "–",
      ),
    ),
  );
}

const number = (text) => element("td", { class: "number" }, text);

const clock = (moment) => new Date(moment).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

function sum(values, of) {
  let total = 0;
  for (const value of values) total += of(value);
  return total;
}
