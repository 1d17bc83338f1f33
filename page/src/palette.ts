// Colours of weights. Cividis: made for eyes that confuse red and green; in the dark its ramp begins at the background.

type Rgb = [number, number, number];

/** Colours written one after another, six digits each. */
const stops = (digits: string): Rgb[] => digits.match(/.{6}/g)!.map((one) => [0, 2, 4].map((at) => parseInt(one.slice(at, at + 2), 16)) as Rgb);

const CIVIDIS = stops("00224e1235703b496c575d6d7071738a8678a59c74c3b369e1cc55fee838");
const VIRIDIS = stops("4401544828783e4a8931688e26828e1f9e8935b7796dcd59b4de2cfde725");
/** From the page's ground to its ink, light and dark. */
const INK: Record<string, Rgb[]> = {
  light: stops("faf7f0d6e2e896bcd0548fb220628c0a365c"),
  dark: stops("1a1d23203a54266086468eb28ec2d6e8f4f6"),
};
/** Signed: blue for less, orange for more, the ground for nothing. */
const SIGNED: Record<string, Rgb[]> = {
  light: stops("004a8c5492c8b0cee6faf7f0face96e28a30a04e00"),
  dark: stops("78beff3c7ebe2442641a1d23603e18be7628ffba68"),
};

export const PALETTES = ["ink", "cividis", "viridis", "grey"];

function ramp(name: string, theme: string): Rgb[] {
  if (name === "signed") return SIGNED[theme];
  if (name === "cividis") return theme === "dark" ? CIVIDIS : [...CIVIDIS].reverse();
  if (name === "viridis") return theme === "dark" ? VIRIDIS : [...VIRIDIS].reverse();
  if (name === "grey") return theme === "dark" ? stops("1a1d23f0f0f0") : stops("faf7f0141414");
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

/** The colour at a place on the palette, 0 to 255. */
export const tint = (palette: string, theme: string, at: number): string => `rgb(${table(palette, theme).subarray(4 * at, 4 * at + 3).join(" ")})`;

export const colour = (scale: Scale, theme: string, value: number): string => tint(scale.palette, theme, place(scale, value));

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
