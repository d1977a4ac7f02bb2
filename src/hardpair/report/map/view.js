// Where on the map the screen is: its middle in coordinates of the map, and pixels per unit.

const stage = byId("stage");
const view = { x: 0, y: 0, scale: 1, fitted: 1, width: 1, height: 1, ratio: 1 };
const MOST_ZOOM = Math.max(60, 5 * Math.sqrt(count)); // times the whole map: nearly all pictures stand alone
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let moving = 0; // the animation in hand

const bounds = (() => {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    left = Math.min(left, points[i]);
    right = Math.max(right, points[i]);
    bottom = Math.min(bottom, points[i + 1]);
    top = Math.max(top, points[i + 1]);
  }
  return { left, right, bottom, top };
})();

const screenX = (x) => (x - view.x) * view.scale + view.width / 2;
const screenY = (y) => (view.y - y) * view.scale + view.height / 2;
const zoom = () => view.scale / view.fitted;
const isNarrow = () => view.width <= 640;

function resize() {
  const first = view.width === 1;
  view.width = Math.max(stage.clientWidth, 1);
  view.height = Math.max(stage.clientHeight, 1);
  view.ratio = Math.min(devicePixelRatio || 1, 2);
  sizeCanvases();
  const before = zoom();
  const whole = home();
  view.fitted = whole.scale;
  if (first || before === 1) Object.assign(view, whole);
  requestDraw();
}

// Everything, in the part of the screen that nothing covers.
function home() {
  const narrow = isNarrow();
  const free = narrow
    ? { left: 20, right: 20, top: 150, bottom: 40 }
    : { left: 324, right: byId("panel").hidden ? 84 : 444, top: 44, bottom: 44 };
  const across = Math.max(bounds.right - bounds.left, 1e-3);
  const down = Math.max(bounds.top - bounds.bottom, 1e-3);
  const scale = Math.min(Math.max(view.width - free.left - free.right, 80) / across, Math.max(view.height - free.top - free.bottom, 80) / down);
  const x = (bounds.left + bounds.right) / 2 - (free.left - free.right) / 2 / scale;
  const y = (bounds.bottom + bounds.top) / 2 + (free.top - free.bottom) / 2 / scale;
  return { x, y, scale };
}

function pan(right, down) {
  stopMoving();
  view.x -= right / view.scale;
  view.y += down / view.scale;
  keepInside();
  requestDraw();
}

// The middle of the screen stays on the map, so that nobody gets lost.
function keepInside() {
  view.x = Math.min(Math.max(view.x, bounds.left - view.width / 2 / view.scale), bounds.right + view.width / 2 / view.scale);
  view.y = Math.min(Math.max(view.y, bounds.bottom - view.height / 2 / view.scale), bounds.top + view.height / 2 / view.scale);
}

// By a factor, around a point of the screen that stays where it is.
function zoomAt(factor, atX = view.width / 2, atY = view.height / 2) {
  stopMoving();
  const scale = Math.min(Math.max(view.scale * factor, view.fitted / 2), view.fitted * MOST_ZOOM);
  const x = view.x + (atX - view.width / 2) / view.scale;
  const y = view.y - (atY - view.height / 2) / view.scale;
  view.scale = scale;
  view.x = x - (atX - view.width / 2) / scale;
  view.y = y + (atY - view.height / 2) / scale;
  keepInside();
  requestDraw();
}

function stopMoving() {
  cancelAnimationFrame(moving);
  moving = 0;
}

function moveTo(target, milliseconds = 350) {
  stopMoving();
  const from = { x: view.x, y: view.y, scale: view.scale };
  const began = performance.now();
  const step = (now) => {
    const t = calm.matches ? 1 : Math.min(Math.max((now - began) / milliseconds, 0), 1);
    const eased = 1 - (1 - t) ** 3;
    view.x = from.x + (target.x - from.x) * eased;
    view.y = from.y + (target.y - from.y) * eased;
    view.scale = from.scale * (target.scale / from.scale) ** eased;
    moving = t < 1 ? requestAnimationFrame(step) : 0;
    requestDraw();
  };
  moving = requestAnimationFrame(step);
}

// Bring a picture to the middle of the free part of the screen, unless it is there already.
function bringIntoView(row) {
  const covered = isNarrow() ? { right: 0, bottom: view.height * 0.52 } : { right: 400, bottom: 0 };
  const [left, top] = isNarrow() ? [0, 130] : [300, 0];
  const x = screenX(points[2 * row]);
  const y = screenY(points[2 * row + 1]);
  const room = 40;
  const inside = x > left + room && x < view.width - covered.right - room && y > top + room && y < view.height - covered.bottom - room;
  if (inside) return;
  const middle = [(left + view.width - covered.right) / 2, (top + view.height - covered.bottom) / 2];
  const target = { scale: view.scale };
  target.x = points[2 * row] - (middle[0] - view.width / 2) / view.scale;
  target.y = points[2 * row + 1] + (middle[1] - view.height / 2) / view.scale;
  moveTo(target);
}

// The shown picture nearest to a point of the screen, or -1 where none is within reach.
function rowAt(x, y, reach) {
  let best = -1;
  let least = (reach / view.scale) ** 2;
  const mapX = view.x + (x - view.width / 2) / view.scale;
  const mapY = view.y - (y - view.height / 2) / view.scale;
  for (let row = 0; row < count; row++) {
    const apart = (points[2 * row] - mapX) ** 2 + (points[2 * row + 1] - mapY) ** 2;
    if (apart <= least && lit[row]) [best, least] = [row, apart];
  }
  return best;
}
