// Elements without HTML text: what the gateway returns is never read as markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (attribute === "class") made.className = value;
    else made.setAttribute(attribute, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

export const by = (id) => document.getElementById(id);

export const row = (...cells) =>
  element(
    "tr",
    {},
    ...cells.map((cell) => {
      if (cell instanceof HTMLTableCellElement) return cell;
      if (cell instanceof Node) return element("td", {}, cell);
      if (typeof cell === "number") return element("td", { class: "number" }, String(cell));
      return element("td", {}, cell ?? "–");
    }),
  );

export function fill(select, names) {
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => element("option", {}, name)));
  if (names.includes(chosen)) select.value = chosen;
}

export function later(action, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}
