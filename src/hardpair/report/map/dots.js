// The dots: written pixel by pixel into one picture, which is several times as fast as asking the canvas for each.

const dotsCanvas = byId("dots");
const dotsContext = dotsCanvas.getContext("2d", { alpha: false });
const MARGIN = 24; // pixels around the screen, so that a dot at the edge needs no test of its own
let frame = null; // ImageData with its margin
let pixels = null; // the same memory, a number per pixel

function sizeDots(width, height) {
  dotsCanvas.width = width;
  dotsCanvas.height = height;
  frame = new ImageData(width + 2 * MARGIN, height + 2 * MARGIN);
  pixels = new Uint32Array(frame.data.buffer);
}

function dotRadius() { // in CSS pixels; about as many dots on the screen as there is room for
  const room = Math.sqrt((view.width * view.height) / count) * Math.max(zoom(), 0.5);
  return Math.min(Math.max(0.19 * room, 1.1), 5.5);
}

// A disc with soft edges, as steps in the picture's memory and how much of the colour belongs there, of 256.
function discOf(radius, width) {
  const reach = Math.min(Math.ceil(radius), MARGIN - 2);
  const steps = [];
  const shares = [];
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const share = Math.min(Math.max(radius + 0.5 - Math.hypot(x, y), 0), 1);
      if (share > 0.02) {
        steps.push(y * width + x);
        shares.push(Math.round(share * 226));
      }
    }
  }
  return { steps: Int32Array.from(steps), shares: Int32Array.from(shares) };
}

function paintDots() {
  const { width, height } = frame;
  pixels.fill(0xff000000 | rgbOf(theme.paper));
  const radius = dotRadius() * view.ratio;
  const all = litCount === count;
  if (!all) stampAll(discOf(Math.max(radius * 0.8, 1), width), 0, rgbOf(theme.faint));
  stampAll(discOf(radius, width), 1, -1);
  dotsContext.putImageData(frame, -MARGIN, -MARGIN, MARGIN, MARGIN, width - 2 * MARGIN, height - 2 * MARGIN);
}

function stampAll({ steps, shares }, wanted, only) {
  const { width, height } = frame;
  const length = steps.length;
  const scale = view.scale * view.ratio;
  const left = (view.width / 2) * view.ratio + MARGIN - view.x * scale;
  const top = (view.height / 2) * view.ratio + MARGIN + view.y * scale;
  const reach = MARGIN / 2;
  const [most, lowest] = [width - reach, height - reach];
  for (let row = 0; row < count; row++) {
    if (lit[row] !== wanted) continue;
    const x = (points[2 * row] * scale + left) | 0;
    const y = (top - points[2 * row + 1] * scale) | 0;
    if (x < reach || y < reach || x >= most || y >= lowest) continue;
    const colour = only >= 0 ? only : colours.rgb[row];
    const redBlue = colour & 0xff00ff;
    const green = colour & 0x00ff00;
    const at = y * width + x;
    for (let i = 0; i < length; i++) {
      const place = at + steps[i];
      const share = shares[i];
      const under = pixels[place];
      const left256 = 256 - share;
      const rb = (Math.imul(redBlue, share) + Math.imul(under & 0xff00ff, left256)) >>> 8;
      const g = (Math.imul(green, share) + Math.imul(under & 0x00ff00, left256)) >>> 8;
      pixels[place] = 0xff000000 | (rb & 0xff00ff) | (g & 0x00ff00);
    }
  }
}
