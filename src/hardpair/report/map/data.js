// What the page holds: columns of numbers as base64, names and facts as JSON. The large ones come after the script in
// the page and are decoded when they are first needed, so that dots are on the screen before the file is read to its end.

const byId = (id) => document.getElementById(id);
const KINDS = { Uint8Array, Uint16Array, Uint32Array, Int16Array, Int32Array, Float32Array };

function bytesOf(id) {
  const text = byId(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function column(id) {
  const { kind, scale } = byId(id).dataset;
  const bytes = bytesOf(id);
  const numbers = new KINDS[kind](bytes.buffer, bytes.byteOffset, bytes.byteLength / KINDS[kind].BYTES_PER_ELEMENT);
  return scale ? Float32Array.from(numbers, (number) => number * scale) : numbers;
}

function later(make) {
  let value;
  return () => (value ??= make());
}

const meta = JSON.parse(byId("meta").textContent);
const count = meta.count;
const points = column("points"); // x, y of each picture
const codes = { label: column("labels"), cluster: column("clusters"), split: column("splits"), outlier: column("bands") };

// A name is a letter for how much it shares with the one before, and the rest.
const names = later(() => {
  const packed = JSON.parse(byId("names").textContent);
  let before = "";
  return packed.map((name) => (before = before.slice(0, name.charCodeAt(0) - 48) + name.slice(1)));
});
const lowerNames = later(() => names().map((name) => name.toLowerCase()));
const near = later(() => ({ rows: column("near-rows"), values: column("near-values"), each: meta.near }));
const pairs = later(() => ({ rows: column("pair-rows"), values: column("pair-values"), each: meta.pairs.each }));
const scores = later(() => column("scores"));
const sizes = later(() => column("sizes"));
const thumbRows = later(() => column("thumb-rows")); // thumbnail → picture
const thumbOf = later(() => {
  const places = new Int32Array(count).fill(-1);
  thumbRows().forEach((row, place) => (places[row] = place));
  return places;
});

// Controls, halves of letters and marks that turn the direction of what follows: names of files may hold anything.
const UNFIT = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const shown = (text) => text.replace(UNFIT, "\ufffd");
const nameOf = (row) => shown(names()[row]);
const lastOf = (path) => path.slice(path.lastIndexOf("/") + 1) || path;
const shortOf = (name) => { // both ends, which tell files apart
  const stem = lastOf(name).replace(/(?<=.)\.[^.]*$/, "");
  return stem.length > 9 ? `${stem.slice(0, 4)}…${stem.slice(-4)}` : stem;
};
const group = (number) => number.toLocaleString("en-GB");
const several = (number, word) => `${group(number)} ${word}${number === 1 ? "" : "s"}`;

// What a code of a column means; -1 is stored as the largest number of its kind.
const NONE = { label: "no label", cluster: "between clusters", split: "no split", outlier: "" };
const values = {
  label: meta.classes.map(shown),
  cluster: meta.clusters.map((cluster, place) => (cluster.name ? `${place + 1} · ${shown(cluster.name)}` : `${place + 1}`)),
  split: meta.splits.map(shown),
  outlier: meta.bands,
};
const valueOf = (mode, row) => values[mode][codes[mode][row]] ?? NONE[mode];
const isKnown = (mode, row) => codes[mode][row] < values[mode].length;

// Elements with text and attributes; text is never read as HTML.
function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...content);
  return element;
}

function say(words) {
  byId("live").textContent = words;
}
