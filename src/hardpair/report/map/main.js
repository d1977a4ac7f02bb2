// Begin: dots first; names, neighbours and thumbnails follow when the page has been read to its end.

function fillTexts() {
  byId("title").textContent = shown(meta.title);
  byId("about").textContent = shown(meta.about);
  byId("limits").textContent = meta.limits;
  byId("rule").textContent = meta.rule;
  over.setAttribute("aria-label", `Map of ${several(count, "picture")}`);
  const modes = { label: "label", cluster: "cluster", split: "split", outlier: "outlier score" };
  const useful = Object.keys(modes).filter((mode) => values[mode].length > 0);
  byId("mode").append(...useful.map((mode) => make("option", { value: mode }, modes[mode])));
  foldLegend(innerWidth <= 640);
  return useful[0];
}

// Screen coordinates of pictures, for whoever drives this page from outside.
globalThis.hardpairMap = { count, screenOf: (row) => [screenX(points[2 * row]), screenY(points[2 * row + 1])], view, state, lit, thumbs: () => drawn };

const begun = fillTexts();
resize();
setMode(begun);
listen();
draw();
performance.mark("painted");
document.addEventListener("DOMContentLoaded", requestDraw);
