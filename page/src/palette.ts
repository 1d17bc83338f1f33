// Colours of weights. Cividis: made for eyes that confuse red and green; in the dark its ramp begins at the background.

type Rgb = [number, number, number];

const CIVIDIS: Rgb[] = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [225, 204, 85], [254, 232, 56],
];
const VIRIDIS: Rgb[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121],
  [109, 205, 89], [180, 222, 44], [253, 231, 37],
];
/** From the page's ground to its ink, light and dark. */
const INK: Record<string, Rgb[]> = {
  light: [[250, 247, 240], [214, 226, 232], [150, 188, 208], [84, 143, 178], [32, 98, 140], [10, 54, 92]],
  dark: [[26, 29, 35], [32, 58, 84], [38, 96, 134], [70, 142, 178], [142, 194, 214], [232, 244, 246]],
};
/** Signed: blue for less, orange for more, the ground for nothing. */
const SIGNED: Record<string, Rgb[]> = {
  light: [[0, 74, 140], [84, 146, 200], [176, 206, 230], [250, 247, 240], [250, 206, 150], [226, 138, 48], [160, 78, 0]],
  dark: [[120, 190, 255], [60, 126, 190], [36, 66, 100], [26, 29, 35], [96, 62, 24], [190, 118, 40], [255, 186, 104]],
};

export const PALETTES = ["ink", "cividis", "viridis", "grey"];

function ramp(name: string, theme: string): Rgb[] {
  if (name === "signed") return SIGNED[theme];
  if (name === "cividis") return theme === "dark" ? CIVIDIS : [...CIVIDIS].reverse();
  if (name === "viridis") return theme === "dark" ? VIRIDIS : [...VIRIDIS].reverse();
  if (name === "grey") return theme === "dark" ? [[26, 29, 35], [240, 240, 240]] : [[250, 247, 240], [20, 20, 20]];
  return INK[theme];
}

const tables = new Map<string, Uint8ClampedArray<ArrayBuffer>>();

/** 256 colours of a palette, four bytes each. */
export function table(name: string, theme: string): Uint8ClampedArray<ArrayBuffer> {
  const key = name + theme;
  let found = tables.get(key);
  if (!found) {
    const stops = ramp(name, theme);
    found = new Uint8ClampedArray(1024);
    for (let i = 0; i < 256; i++) {
      const at = (i / 255) * (stops.length - 1);
      const low = Math.min(Math.floor(at), stops.length - 2);
      for (let c = 0; c < 3; c++) found[4 * i + c] = stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]);
      found[4 * i + 3] = 255;
    }
    tables.set(key, found);
  }
  return found;
}

/** How values become places on a palette. */
export interface Scale {
  palette: string;
  low: number;
  high: number;
  log: boolean;
}

export function scaleOf(palette: string, values: Float32Array, how: string): Scale {
  let high = 1;
  if (palette === "signed" || how === "most") {
    high = 0;
    for (const value of values) if (Number.isFinite(value)) high = Math.max(high, Math.abs(value));
  }
  high = high || 1;
  return { palette, low: palette === "signed" ? -high : how === "log" ? 1e-4 : 0, high, log: how === "log" };
}

/** The place of a value on the palette, 0 to 255. */
export function place(scale: Scale, value: number): number {
  const part = scale.log
    ? Math.log(Math.max(value, scale.low) / scale.low) / Math.log(scale.high / scale.low)
    : (value - scale.low) / (scale.high - scale.low);
  return Math.max(0, Math.min(255, Math.round(255 * part)));
}

/** A picture of values, one pixel each. hidden: those that stay clear. */
export function paint(canvas: HTMLCanvasElement, size: [number, number], values: Float32Array, scale: Scale, theme: string, hidden?: (index: number) => boolean): void {
  [canvas.height, canvas.width] = [Math.max(1, size[0]), Math.max(1, size[1])];
  const pen = canvas.getContext("2d")!;
  const data = pen.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(data.data.buffer);
  const colours = new Uint32Array(table(scale.palette, theme).buffer);
  for (let i = 0; i < values.length; i++) if (!hidden?.(i)) pixels[i] = colours[place(scale, values[i])];
  pen.putImageData(data, 0, 0);
}

export function colour(scale: Scale, theme: string, value: number): string {
  const colours = table(scale.palette, theme);
  const at = 4 * place(scale, value);
  return `rgb(${colours[at]} ${colours[at + 1]} ${colours[at + 2]})`;
}

/** Black or white, whichever can be read on the colour of a value: one of them always has a contrast of 4.5. */
export function textOn(scale: Scale, theme: string, value: number): string {
  const colours = table(scale.palette, theme);
  const at = 4 * place(scale, value);
  const [r, g, b] = [0, 1, 2].map((i) => (colours[at + i] / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

/** Colours of heads (Okabe and Ito 2008), with dashes so that colour is never alone. */
export const HEADS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#5b5bd6", "#7a7a7a"];
export const DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2", "8 2 2 2 2 2"];
