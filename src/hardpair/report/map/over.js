// What lies over the dots: thumbnails, captions of clusters, the chosen picture, the lasso.

const over = byId("over");
const pen = over.getContext("2d");
const FONT = '13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif';
let drawn = []; // thumbnails on the screen: { row, x, y, half }
let waiting = false;

function requestDraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function sizeCanvases() {
  const width = Math.round(view.width * view.ratio);
  const height = Math.round(view.height * view.ratio);
  if (over.width === width && over.height === height && frame) return;
  [over.width, over.height] = [width, height];
  sizeDots(width, height);
}

function draw() {
  paintDots();
  pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  drawn = [];
  if (document.readyState !== "loading") {
    const size = thumbSize();
    if (size) drawThumbs(size);
    else drawCaptions();
  }
  drawChosen();
  drawLasso();
  if (state.keyboard) drawMiddle();
}

function drawThumbs({ level, size, grown }) {
  const half = grown / 2;
  const line = grown > 44 ? 3 : 2;
  for (const thumb of placement(level, size)) {
    const row = thumbRows()[thumb];
    const x = screenX(points[2 * row]);
    const y = screenY(points[2 * row + 1]);
    if (x < -half || y < -half || x > view.width + half || y > view.height + half) continue;
    pen.fillStyle = cssOf(row);
    pen.fillRect(x - half + 1, y - half + 1, grown - 2, grown - 2);
    drawThumb(pen, thumb, x - half + 1 + line, y - half + 1 + line, grown - 2 - 2 * line);
    drawn.push({ row, x, y, half });
  }
}

const centres = later(() => {
  const sums = meta.clusters.map(() => [0, 0, 0]);
  for (let row = 0; row < count; row++) {
    const sum = sums[codes.cluster[row]];
    if (!sum) continue;
    sum[0] += points[2 * row];
    sum[1] += points[2 * row + 1];
    sum[2]++;
  }
  return sums.map(([x, y, number]) => [x / number, y / number]);
});

// The typical pictures of each cluster in its middle, with its name; the largest first, the others where there is room.
function drawCaptions() {
  if (litCount < count) return;
  const taken = [];
  const side = isNarrow() ? 26 : 34;
  const most = isNarrow() ? 1 : 3;
  pen.font = FONT;
  meta.clusters.forEach((cluster, place) => {
    const thumbs = cluster.typical.map((row) => thumbOf()[row]).filter((thumb) => thumb >= 0).slice(0, most);
    const words = fitting(shown(cluster.name) || `cluster ${place + 1}`, 150);
    const wide = Math.max(thumbs.length * (side + 2), pen.measureText(words).width + 14);
    const high = 20 + (thumbs.length > 0 ? side + 2 : 0);
    const [x, y] = [screenX(centres()[place][0]), screenY(centres()[place][1])];
    if (x < 0 || y < 0 || x > view.width || y > view.height) return;
    const middle = Math.min(Math.max(x, wide / 2 + 6), view.width - wide / 2 - 6); // words stay on the screen
    const box = { left: middle - wide / 2, right: middle + wide / 2, top: y - high / 2, bottom: y + high / 2 };
    if (taken.some((other) => box.left < other.right + 6 && box.right > other.left - 6 && box.top < other.bottom + 6 && box.bottom > other.top - 6)) return;
    taken.push(box);
    drawCaption(place, box, thumbs, side, words);
  });
}

function drawCaption(place, box, thumbs, side, words) {
  const x = (box.left + box.right) / 2;
  const wide = thumbs.length * (side + 2) + 2;
  if (thumbs.length > 0) {
    pen.fillStyle = colours.mode === "cluster" ? colours.css[place] : theme.rule;
    rounded(x - wide / 2, box.top - 2, wide, side + 4, 4);
    thumbs.forEach((thumb, at) => drawThumb(pen, thumb, x - wide / 2 + 2 + at * (side + 2), box.top, side));
  }
  pen.globalAlpha = 0.92;
  pen.fillStyle = theme.card;
  const text = pen.measureText(words).width;
  rounded(x - text / 2 - 7, box.bottom - 18, text + 14, 20, 10);
  pen.globalAlpha = 1;
  pen.fillStyle = theme.ink;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(words, x, box.bottom - 7.5);
}

function rounded(x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fill();
}

function fitting(words, most) {
  if (pen.measureText(words).width <= most) return words;
  let length = Math.min(words.length, 60);
  while (length > 1 && pen.measureText(`${words.slice(0, length)}…`).width > most) length--;
  return `${words.slice(0, length)}…`;
}

function ring(row, colour, radius, line) {
  const [x, y] = [screenX(points[2 * row]), screenY(points[2 * row + 1])];
  for (const [style, width] of [[theme.paper, line + 3], [colour, line]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.stroke();
  }
}

function drawChosen() {
  if (state.chosen >= 0) {
    for (const other of state.linked) line(state.chosen, other);
    for (const other of state.linked) mark(other, 2, 1);
    mark(state.chosen, Math.max(4, 8 - dotRadius()), 2.5);
  }
  if (state.hovered < 0 || state.hovered === state.chosen) return;
  mark(state.hovered, 3, 1.5);
  if (!drawn.some((one) => one.row === state.hovered)) drawPreview(state.hovered);
}

// A frame around its thumbnail, or a ring around its dot.
function mark(row, room, width) {
  const thumb = drawn.find((one) => one.row === row);
  if (!thumb) return ring(row, theme.ink, dotRadius() + room, width);
  const { x, y, half } = thumb;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = width + 0.5;
  pen.strokeRect(x - half, y - half, 2 * half, 2 * half);
}

const PREVIEW = 96;

// The picture of a dot, beside it.
function drawPreview(row) {
  const thumb = thumbOf()[row];
  const [x, y] = [screenX(points[2 * row]), screenY(points[2 * row + 1])];
  if (thumb < 0 || x < 0 || y < 0 || x > view.width || y > view.height) return;
  const away = dotRadius() + 10;
  const left = x + away + PREVIEW + 8 > view.width ? x - away - PREVIEW : x + away;
  const top = y + away + PREVIEW + 8 > view.height ? y - away - PREVIEW : y + away;
  pen.fillStyle = cssOf(row);
  rounded(left - 3, top - 3, PREVIEW + 6, PREVIEW + 6, 5);
  drawThumb(pen, thumb, left, top, PREVIEW);
}

function line(from, to) {
  pen.strokeStyle = theme.ink;
  pen.globalAlpha = 0.4;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(screenX(points[2 * from]), screenY(points[2 * from + 1]));
  pen.lineTo(screenX(points[2 * to]), screenY(points[2 * to + 1]));
  pen.stroke();
  pen.globalAlpha = 1;
}

function drawLasso() {
  if (!state.lasso) return;
  pen.beginPath();
  state.lasso.forEach(([x, y], place) => (place ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.closePath();
  pen.globalAlpha = 0.12;
  pen.fillStyle = theme.accent;
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 2;
  pen.stroke();
}

// Where Enter looks, for people without a pointer.
function drawMiddle() {
  const [x, y] = [view.width / 2, view.height / 2];
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    pen.moveTo(x + 5 * dx, y + 5 * dy);
    pen.lineTo(x + 14 * dx, y + 14 * dy);
  }
  pen.stroke();
}
