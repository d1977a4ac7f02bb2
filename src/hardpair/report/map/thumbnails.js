// Thumbnails: decoded from atlases when they come into sight, and placed so that none covers another.

const DECODED = 48; // atlases that are kept decoded, 2.4 MB each
const decoded = new Map(); // number → Promise of ImageBitmap; the last used at the end
const ready = new Map(); // number → ImageBitmap
const perAtlas = meta.thumbs.across ** 2;

function atlas(number) {
  let promise = decoded.get(number);
  if (promise) decoded.delete(number);
  promise ??= createImageBitmap(new Blob([bytesOf(`atlas-${number}`)], { type: "image/jpeg" })).then((bitmap) => {
    if (decoded.has(number)) ready.set(number, bitmap);
    requestDraw();
    return bitmap;
  });
  decoded.set(number, promise);
  if (decoded.size > DECODED) forget(decoded.keys().next().value);
  return promise;
}

function forget(number) {
  decoded.delete(number);
  ready.delete(number);
}

// Where thumbnail t lies in its atlas.
function spriteOf(thumb) {
  const place = thumb % perAtlas;
  const { side, across } = meta.thumbs;
  return [(place % across) * side, Math.floor(place / across) * side, side, side];
}

// Draw it if it is there already; otherwise it will be, in one of the next frames.
function drawThumb(context, thumb, x, y, size) {
  const number = Math.floor(thumb / perAtlas);
  const bitmap = ready.get(number);
  if (!bitmap) {
    atlas(number);
    return false;
  }
  context.drawImage(bitmap, ...spriteOf(thumb), x, y, size, size);
  return true;
}

// A picture for the panel, or a plain square where there is none.
function pictureOf(row, size, words) {
  const thumb = thumbOf()[row];
  if (thumb < 0) return make("span", { class: "none", role: "img", "aria-label": `${words}: no picture on this page` }, "no picture");
  const canvas = make("canvas", { role: "img", "aria-label": words });
  canvas.width = canvas.height = Math.round(size * view.ratio);
  atlas(Math.floor(thumb / perAtlas)).then((bitmap) => {
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(bitmap, ...spriteOf(thumb), 0, 0, canvas.width, canvas.height);
  });
  return canvas;
}

// Thumbnails come when few enough of the pictures that are lit are on the screen, and grow as one goes on.
const onScreen = () => litCount / Math.max(zoom(), 1) ** 2;
const firstAt = () => Math.max((2.2 * (view.width * view.height)) / 1024, 260); // pictures on the screen
const LEVELS = 2; // per doubling: thumbnails keep their places within a level, and grow a little

function thumbSize() { // in CSS pixels at the current zoom, or 0
  if (meta.thumbs.count === 0 || litCount === 0 || onScreen() > firstAt()) return 0;
  const level = Math.floor(Math.log2(zoom()) * LEVELS) / LEVELS;
  const roomFor = (number) => 0.5 * Math.sqrt((view.width * view.height) / (number / 4 ** Math.max(level, 0)));
  const few = Math.min(roomFor(litCount), 44); // these may all lie in one place
  const size = Math.min(Math.max(roomFor(count), few, 30), 96);
  return { level, size, grown: size * 2 ** (Math.log2(zoom()) - level) };
}

const placed = { key: "", thumbs: [] };

// Which thumbnails are drawn at a level, anywhere on the map, so that panning changes nothing; typical ones come first.
function placement(level, size) {
  const key = `${level} ${litVersion} ${Math.round(size)} ${view.fitted}`;
  if (placed.key === key) return placed.thumbs;
  const apart = size / (view.fitted * 2 ** level);
  const cells = new Map();
  placed.thumbs = [];
  for (const thumb of drawOrder()) {
    const row = thumbRows()[thumb];
    if (!lit[row]) continue;
    const x = points[2 * row] / apart;
    const y = points[2 * row + 1] / apart;
    if (isFree(cells, x, y)) {
      cells.set(Math.floor(x) * 67108859 + Math.floor(y), [x, y]);
      placed.thumbs.push(thumb);
    }
  }
  placed.key = key;
  return placed.thumbs;
}

function isFree(cells, x, y) {
  for (let across = -1; across <= 1; across++) {
    for (let down = -1; down <= 1; down++) {
      const other = cells.get((Math.floor(x) + across) * 67108859 + Math.floor(y) + down);
      if (other && Math.abs(other[0] - x) < 1 && Math.abs(other[1] - y) < 1) return false;
    }
  }
  return true;
}

const drawOrder = later(() => {
  const total = meta.thumbs.count;
  const typical = meta.clusters.flatMap((cluster) => cluster.typical).map((row) => thumbOf()[row]).filter((thumb) => thumb >= 0);
  const step = 7919; // a prime: neighbours on the map come far from each other
  const spread = Array.from({ length: total }, (_, place) => (place * step) % total);
  return [...new Set(total % step === 0 ? [...typical, ...spread, ...Array(total).keys()] : [...typical, ...spread])];
});
