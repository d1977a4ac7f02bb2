// Choosing many: search by name and label, the lasso, and the list of what is shown as a CSV file.

const SHOWN = 40; // names below the search field
const query = byId("query");

let typing = 0;

function searchSoon() {
  clearTimeout(typing);
  typing = setTimeout(search, 120);
}

function search() {
  clearTimeout(typing);
  const words = query.value.trim().toLowerCase();
  if (!words) {
    filters.found = null;
    showFound([]);
    applyFilters();
    return;
  }
  const labels = values.label.map((label) => label.toLowerCase().includes(words));
  const all = lowerNames();
  const found = new Uint8Array(count);
  const first = [];
  let total = 0;
  for (let row = 0; row < count; row++) {
    if (!all[row].includes(words) && !labels[codes.label[row]]) continue;
    found[row] = 1;
    total++;
    if (first.length < SHOWN) first.push(row);
  }
  filters.found = found;
  applyFilters();
  showFound(first, total);
}

function showFound(rows, total = -1) {
  const items = rows.map((row) => {
    const go = () => {
      byId("found").hidden = true;
      choosePicture(row, { focus: true });
    };
    const label = isKnown("label", row) ? make("span", { class: "note" }, valueOf("label", row)) : "";
    return make("li", {}, make("button", { type: "button", title: nameOf(row), "data-row": row, onclick: go }, pictureOf(row, 32, ""), make("span", {}, make("span", { class: "name" }, lastOf(nameOf(row))), label)));
  });
  if (total === 0) items.push(make("li", { class: "small" }, "No picture has this in its name or label."));
  if (total > rows.length) items.push(make("li", { class: "small" }, `and ${group(total - rows.length)} more; all are lit on the map`));
  byId("found").replaceChildren(...items);
  byId("found").hidden = items.length === 0;
}

// From the field to its list with the arrow keys, and along it; Enter takes the first.
function moveInList(event) {
  if (event.key === "Enter" && event.target === query) {
    search();
    byId("found").querySelector("button")?.click();
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...byId("found").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  event.preventDefault();
  if (next < 0) query.focus();
  else buttons[Math.min(next, buttons.length - 1)]?.focus();
}

function setLassoing(on) {
  state.lassoing = on;
  byId("lasso").setAttribute("aria-pressed", String(on));
  stage.classList.toggle("lassoing", on);
}

function endLasso() {
  const outline = state.lasso;
  state.lasso = null;
  setLassoing(false);
  if (outline.length < 3) return requestDraw();
  filters.lasso = null; // a new one begins from what colours and search show
  applyFilters();
  const inside = new Uint8Array(count);
  const corners = outline.map(([x, y]) => [view.x + (x - view.width / 2) / view.scale, view.y - (y - view.height / 2) / view.scale]);
  for (let row = 0; row < count; row++) if (lit[row] && isInside(corners, points[2 * row], points[2 * row + 1])) inside[row] = 1;
  filters.lasso = inside;
  applyFilters();
}

// Whether a line from the point to the right crosses the outline an odd number of times.
function isInside(corners, x, y) {
  let inside = false;
  for (let i = 0, j = corners.length - 1; i < corners.length; j = i++) {
    const [xi, yi] = corners[i];
    const [xj, yj] = corners[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

// Names need not be text: bytes that are not, which Python keeps as halves of letters, come out as they were.
function utf8(text) {
  const encoder = new TextEncoder();
  const parts = text.split(/((?<![\ud800-\udbff])[\udc80-\udcff])/);
  return parts.map((part, place) => (place % 2 ? Uint8Array.of(part.charCodeAt(0) - 0xdc00) : encoder.encode(part)));
}

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function listAsCsv() {
  const lines = ["filename,label,cluster,x,y"];
  for (let row = 0; row < count; row++) {
    if (!lit[row]) continue;
    const label = meta.classes[codes.label[row]] ?? "";
    const cluster = isKnown("cluster", row) ? codes.cluster[row] : -1;
    lines.push([quoted(names()[row]), quoted(label), cluster, points[2 * row], points[2 * row + 1]].join(","));
  }
  return utf8(`${lines.join("\r\n")}\r\n`);
}

function saveCsv() {
  const address = URL.createObjectURL(new Blob(listAsCsv(), { type: "text/csv" }));
  make("a", { href: address, download: "selection.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  say(`${several(litCount, "picture")} written to selection.csv`);
}
