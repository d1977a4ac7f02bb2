// The panel of the chosen picture: itself, its nearest neighbours and its hard pairs.

const state = { chosen: -1, hovered: -1, linked: [], lasso: null, lassoing: false, keyboard: false };
const panel = byId("panel");

function choosePicture(row, { focus = false } = {}) {
  state.chosen = row;
  const fresh = fillPanel(row);
  panel.replaceChildren(...fresh.content);
  panel.hidden = false;
  panel.scrollTop = 0;
  state.linked = fresh.nearest;
  bringIntoView(row);
  if (focus) panel.focus({ preventScroll: true });
  say(`Chosen: ${described(row)}. ${several(fresh.nearest.length, "neighbour")}, ${several(fresh.mined, "hard pair")}.`);
  requestDraw();
}

function closePanel() {
  const had = panel.contains(document.activeElement);
  state.chosen = -1;
  state.linked = [];
  panel.hidden = true;
  if (had) over.focus();
  requestDraw();
}

function described(row) {
  const parts = [lastOf(nameOf(row))];
  if (isKnown("label", row)) parts.push(`label ${valueOf("label", row)}`);
  if (values.cluster.length > 0) parts.push(isKnown("cluster", row) ? `cluster ${valueOf("cluster", row)}` : NONE.cluster);
  return parts.join(", ");
}

function fillPanel(row) {
  const neighbours = listOf(near(), row);
  const hard = listOf(pairs(), row);
  const name = nameOf(row);
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", onclick: closePanel }, "×");
  const heading = make("h2", { title: name }, lastOf(name));
  const picture = make("div", { class: "large" }, pictureOf(row, 240, `Picture ${lastOf(name)}`));
  const content = [close, picture, heading, ...pathOf(name), factsOf(row)];
  content.push(headed("Nearest neighbours", "by similarity"), gallery(neighbours, (value) => [value.toFixed(2)]));
  content.push(headed("Hard pairs", "by distance"), make("p", { class: "small" }, ruleOf(hard)));
  if (hard.length > 0) content.push(gallery(hard, (value, other) => [value.toFixed(2), verdict(row, other)], "wide"));
  return { content, nearest: neighbours.map(([other]) => other), mined: hard.length };
}

// The others of a row with their values; its own number stands for none.
function listOf({ rows, values: numbers, each }, row) {
  const found = [];
  for (let place = row * each; place < (row + 1) * each; place++) if (rows[place] !== row) found.push([rows[place], numbers[place]]);
  return found;
}

const headed = (title, note) => make("h3", {}, `${title} `, make("span", { class: "small" }, note));

function pathOf(name) {
  return name.includes("/") ? [make("p", { class: "small path" }, name)] : [];
}

function factsOf(row) {
  const facts = [];
  if (isKnown("label", row)) facts.push(["label", valueOf("label", row)]);
  if (values.cluster.length > 0) facts.push(["cluster", valueOf("cluster", row)]);
  if (values.split.length > 0) facts.push(["split", valueOf("split", row)]);
  facts.push(["outlier score", `${scores()[row].toFixed(2)} · ${valueOf("outlier", row)}`]);
  facts.push(["size", `${sizes()[2 * row]} × ${sizes()[2 * row + 1]} px`]);
  return make("dl", {}, ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function ruleOf(hard) {
  if (meta.pairs.each === 0) return "There is no other picture.";
  const limit = `within a distance of ${meta.pairs.threshold.toFixed(2)}`;
  if (hard.length === 0) return `No other picture is ${limit}.`;
  return `Other pictures ${limit}: training would push them apart.`;
}

function verdict(row, other) {
  if (!isKnown("label", row) || !isKnown("label", other)) return "";
  const same = codes.label[row] === codes.label[other];
  return make("span", { class: `chip ${same ? "same" : "different"}` }, same ? "= same class" : `≠ ${valueOf("label", other)}`);
}

// In the colours of the map, so that neighbours of another label or cluster are seen at once.
function noteOf(words, other) {
  const swatch = make("i", { "aria-hidden": "true" });
  swatch.style.background = cssOf(other);
  return make("span", { class: "note" }, swatch, words);
}

function gallery(found, notesOf, shape = "") {
  const items = found.map(([other, value]) => {
    const name = lastOf(nameOf(other));
    const notes = notesOf(value, other).filter(Boolean).map((note) => (typeof note === "string" ? noteOf(note, other) : note));
    const label = isKnown("label", other) ? ` label ${valueOf("label", other)},` : "";
    const words = `Go to ${name},${label} ${notes.map((note) => note.textContent).join(", ")}`;
    const go = () => choosePicture(other, { focus: true });
    const show = () => hover(other);
    const button = make("button", { type: "button", "aria-label": words, title: nameOf(other), "data-row": other, onclick: go, onpointerenter: show, onfocus: show, onpointerleave: () => hover(-1) });
    button.append(pictureOf(other, 100, name), make("span", { class: "name" }, shortOf(name)), ...notes);
    return make("li", {}, button);
  });
  return make("ol", { class: shape }, ...items);
}

function recolourPanel() {
  for (const button of panel.querySelectorAll("[data-row]")) button.querySelector("i").style.background = cssOf(Number(button.dataset.row));
}

function hover(row) {
  if (row === state.hovered) return;
  state.hovered = row;
  requestDraw();
}
