// Colours of the dots, the legend, and which pictures are shown: those of the chosen colours, found, and inside the lasso.

const FIRST = ["#4269d0", "#e09b00", "#e4572e", "#3a9d8f", "#7a9e2f", "#d6589f", "#8f5be0", "#5aa7e8", "#9c6b4e", "#b3a100"];
const BANDS = { light: ["#b9c3db", "#86a0dd", "#4269d0", "#d2691e", "#9a1c00"], dark: ["#4a4e57", "#56699b", "#86a8ff", "#f08c45", "#ffd9a8"] };
const MOST_ROWS = 300; // of a legend; the smaller ones share the last
const dark = matchMedia("(prefers-color-scheme: dark)");

const colours = { mode: "", order: [], css: [], rgb: null, chosen: new Set() };
const filters = { found: null, lasso: null }; // Uint8Array (count), or null for no filter
const lit = new Uint8Array(count).fill(1);
let litCount = count;
let litVersion = 0;
let theme = readTheme();

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { paper: read("--paper"), card: read("--card"), rule: read("--rule"), ink: read("--ink"), muted: read("--muted"), faint: read("--faint"), grey: read("--none"), accent: read("--encoder") };
}

function hueOf(place) {
  if (place < FIRST.length) return FIRST[place];
  return `hsl(${Math.round((place * 137.508) % 360)} ${place % 3 === 0 ? 45 : 65}% ${dark.matches ? 58 + 8 * (place % 2) : 40 + 9 * (place % 2)}%)`;
}

function paletteOf(mode) {
  const known = values[mode].length;
  if (mode === "outlier") return [...BANDS[dark.matches ? "dark" : "light"]];
  return Array.from({ length: known }, (_, place) => hueOf(place % MOST_ROWS));
}

const knownColours = new Map(); // css → number, since asking the canvas takes a while
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgbOf(css) { // → 0xBBGGRR
  if (knownColours.has(css)) return knownColours.get(css);
  probe.fillStyle = css;
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  knownColours.set(css, red | (green << 8) | (blue << 16));
  return knownColours.get(css);
}

const cssOf = (row) => colours.css[codes[colours.mode][row]] ?? theme.grey;

function setMode(mode) {
  colours.mode = mode;
  colours.chosen.clear();
  repaint();
  buildLegend();
  applyFilters();
  recolourPanel();
}

function repaint() {
  theme = readTheme();
  colours.css = paletteOf(colours.mode);
  const table = Uint32Array.from(colours.css, rgbOf);
  const none = rgbOf(theme.grey);
  const column = codes[colours.mode];
  colours.rgb ??= new Uint32Array(count);
  for (let row = 0; row < count; row++) colours.rgb[row] = column[row] < table.length ? table[column[row]] : none;
  requestDraw();
}

function buildLegend() {
  const column = codes[colours.mode];
  const known = values[colours.mode].length;
  const tally = new Uint32Array(known + 1);
  for (let row = 0; row < count; row++) tally[Math.min(column[row], known)]++;
  const order = Array.from({ length: known + 1 }, (_, code) => code).filter((code) => tally[code] > 0);
  if (colours.mode === "label" && known > 20) order.sort((a, b) => (a === known) - (b === known) || tally[b] - tally[a]);
  const rows = order.slice(0, MOST_ROWS).map((code) => legendRow(code, tally[code]));
  const more = order.length - rows.length;
  if (more > 0) rows.push(make("li", { class: "small" }, `and ${group(more)} smaller ones; search finds them by name`));
  byId("legend").replaceChildren(...rows);
}

function legendRow(code, size) {
  const name = values[colours.mode][code] ?? NONE[colours.mode];
  const swatch = make("i", { "aria-hidden": "true" });
  swatch.style.background = colours.css[code] ?? theme.grey;
  const press = () => choose(code, button);
  const button = make("button", { type: "button", "aria-pressed": String(colours.chosen.has(code)), "data-code": code, onclick: press }, swatch, make("span", { title: name }, name), make("b", {}, group(size)));
  return make("li", {}, button);
}

function foldLegend(folded) {
  byId("legend").hidden = folded;
  byId("fold").setAttribute("aria-expanded", String(!folded));
}

function choose(code, button) {
  const chosen = colours.chosen.delete(code) ? false : Boolean(colours.chosen.add(code));
  button.setAttribute("aria-pressed", String(chosen));
  applyFilters();
}

function applyFilters() {
  const { chosen } = colours;
  const column = codes[colours.mode];
  const known = values[colours.mode].length;
  const allowed = Uint8Array.from({ length: known + 1 }, (_, code) => (chosen.size === 0 || chosen.has(code) ? 1 : 0));
  litCount = 0;
  for (let row = 0; row < count; row++) {
    let on = allowed[Math.min(column[row], known)];
    if (filters.found) on &= filters.found[row];
    if (filters.lasso) on &= filters.lasso[row];
    lit[row] = on;
    litCount += on;
  }
  litVersion++;
  showTally();
  requestDraw();
}

function showTally() {
  const filtered = colours.chosen.size > 0 || filters.found !== null || filters.lasso !== null;
  byId("bar").hidden = !filtered;
  if (!filtered) return;
  byId("tally").textContent = filters.lasso ? `${several(litCount, "picture")} selected` : `${group(litCount)} of ${several(count, "picture")}`;
  byId("save").disabled = litCount === 0;
  say(byId("tally").textContent);
}

function showAll() {
  colours.chosen.clear();
  filters.found = filters.lasso = null;
  byId("query").value = "";
  showFound([]);
  for (const button of byId("legend").querySelectorAll("[aria-pressed=true]")) button.setAttribute("aria-pressed", "false");
  applyFilters();
  say(`All ${several(count, "picture")}`);
}
