// Mouse, touch, pen and keys.

const pointers = new Map(); // id → [x, y]: one drags or draws, two pinch
const press = { x: 0, y: 0, moved: false };
const CLICK = 5; // pixels that a click may move

function onDown(event) {
  if (event.button > 0) return;
  over.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  state.keyboard = false;
  hover(-1);
  stopMoving();
  if (pointers.size > 1) {
    press.moved = true;
    state.lasso = null;
    return;
  }
  Object.assign(press, { x: event.offsetX, y: event.offsetY, moved: false });
  if (event.shiftKey || state.lassoing) state.lasso = [[event.offsetX, event.offsetY]];
}

function onMove(event) {
  const [x, y] = [event.offsetX, event.offsetY];
  const before = pointers.get(event.pointerId);
  if (!before) {
    if (event.pointerType === "mouse") pointAt(x, y);
    return;
  }
  if (Math.hypot(x - press.x, y - press.y) > CLICK) press.moved = true;
  pointers.set(event.pointerId, [x, y]);
  if (pointers.size === 2) pinch(event.pointerId, before, [x, y]);
  else if (state.lasso) state.lasso.push([x, y]);
  else if (press.moved) pan(x - before[0], y - before[1]);
  requestDraw();
}

function pinch(id, before, now) {
  const [other] = [...pointers].filter(([key]) => key !== id).map(([, place]) => place);
  const apart = (place) => Math.max(Math.hypot(place[0] - other[0], place[1] - other[1]), 1);
  const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
  pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  zoomAt(apart(now) / apart(before), ...middle);
}

function onUp(event) {
  if (!pointers.delete(event.pointerId)) return;
  if (pointers.size > 0) return;
  if (state.lasso) endLasso();
  else if (!press.moved && event.type === "pointerup") {
    const row = pictureAt(event.offsetX, event.offsetY, event.pointerType === "mouse" ? 8 : 18);
    if (row >= 0) choosePicture(row);
    else closePanel();
  }
}

// The thumbnail under the pointer, or the dot near it.
function pictureAt(x, y, reach) {
  for (let place = drawn.length - 1; place >= 0; place--) {
    const one = drawn[place];
    if (Math.abs(one.x - x) <= one.half && Math.abs(one.y - y) <= one.half) return one.row;
  }
  return rowAt(x, y, Math.max(reach, dotRadius() + 3));
}

function pointAt(x, y) {
  const row = pictureAt(x, y, 8);
  over.title = row < 0 ? "" : described(row);
  stage.classList.toggle("pointing", row >= 0);
  hover(row);
}

function onWheel(event) {
  event.preventDefault();
  const step = event.deltaMode === 1 ? 20 * event.deltaY : event.deltaY;
  zoomAt(2 ** (-Math.min(Math.max(step, -240), 240) / (event.ctrlKey ? 90 : 240)), event.offsetX, event.offsetY);
}

const STEP = 90; // pixels that an arrow key moves
const KEYS = {
  ArrowLeft: () => pan(STEP, 0),
  ArrowRight: () => pan(-STEP, 0),
  ArrowUp: () => pan(0, STEP),
  ArrowDown: () => pan(0, -STEP),
  "+": () => zoomAt(1.4),
  "=": () => zoomAt(1.4),
  "-": () => zoomAt(1 / 1.4),
  "0": () => moveTo(home()),
  "/": () => query.focus(),
  "?": () => byId("help").showModal(),
  Enter: () => openMiddle(),
};

function openMiddle() {
  const row = rowAt(view.width / 2, view.height / 2, Infinity);
  if (row >= 0) choosePicture(row, { focus: true });
}

function onKey(event) {
  if (event.key === "Escape") return closeLast();
  const inField = event.target.closest?.("input, select, dialog");
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  const onButton = event.target.closest?.("button, summary");
  const inList = event.target.closest?.("#panel, #found, #legend");
  const act = KEYS[event.key];
  if (!act || (event.key === "Enter" && onButton) || (inList && event.key.startsWith("Arrow"))) return;
  event.preventDefault();
  if (event.target === over) state.keyboard = true;
  act();
  requestDraw();
}

// Escape closes one thing after the other: the drawing, the search, the panel, the selection.
function closeLast() {
  if (byId("help").open) return;
  if (state.lasso || state.lassoing) {
    state.lasso = null;
    setLassoing(false);
  } else if (!byId("found").hidden) {
    byId("found").hidden = true;
    if (byId("found").contains(document.activeElement)) query.focus();
  } else if (!panel.hidden) closePanel();
  else if (!byId("bar").hidden) showAll();
  requestDraw();
}

function listen() {
  over.addEventListener("pointerdown", onDown);
  over.addEventListener("pointermove", onMove);
  over.addEventListener("pointerup", onUp);
  over.addEventListener("pointercancel", onUp);
  over.addEventListener("pointerleave", () => hover(-1));
  over.addEventListener("wheel", onWheel, { passive: false });
  over.addEventListener("dblclick", (event) => zoomAt(2, event.offsetX, event.offsetY));
  over.addEventListener("focus", () => ((state.keyboard = over.matches(":focus-visible") && !pointers.size), requestDraw()));
  over.addEventListener("blur", () => ((state.keyboard = false), requestDraw()));
  addEventListener("keydown", onKey);
  new ResizeObserver(resize).observe(stage);
  dark.addEventListener("change", () => (repaint(), buildLegend(), recolourPanel()));
  query.addEventListener("input", searchSoon);
  byId("find").addEventListener("keydown", moveInList);
  byId("mode").addEventListener("change", (event) => setMode(event.target.value));
  byId("fold").addEventListener("click", () => foldLegend(!byId("legend").hidden));
  byId("in").addEventListener("click", () => zoomAt(1.6));
  byId("out").addEventListener("click", () => zoomAt(1 / 1.6));
  byId("fit").addEventListener("click", () => moveTo(home()));
  byId("lasso").addEventListener("click", () => setLassoing(!state.lassoing));
  byId("ask").addEventListener("click", () => byId("help").showModal());
  byId("save").addEventListener("click", saveCsv);
  byId("clear").addEventListener("click", showAll);
}
