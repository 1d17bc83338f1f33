// A heat map of any size: one pixel a cell in a picture made once, of which the visible part is drawn at every scroll.
// Labels stay in sight. Arrow keys move from cell to cell; what is under the pointer or the keys is said aloud and shown.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colour, paint, scaleOf, tint, type Scale } from "./palette";
import { Note } from "./parts";
import { say } from "./say";
import { digits, times, type Unit } from "./text";
import { theme } from "./theme";

export interface Cell {
  row: number;
  column: number;
}

interface Props {
  name: string;
  rows: Unit[];
  columns: Unit[];
  values: Float32Array;
  palette: string;
  scale?: string;
  masked?: (row: number, column: number) => boolean;
  /** The cell that is held, or null. */
  held?: Cell | null;
  onHold?: (cell: Cell | null) => void;
  /** Frame the largest of each row. */
  outlined?: boolean;
  /** Said beside the colours. */
  note?: string;
  /** Between the words for a row and a column, such as "looks at". */
  verb?: string;
  /** Room in pixels; more than that scrolls. */
  height?: number;
}

const FONT = '13px ui-sans-serif, system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';
const LABEL = 150;

function widest(pen: CanvasRenderingContext2D, units: Unit[], most: number): number {
  pen.font = FONT;
  let found = 0;
  for (const unit of units.slice(0, 400)) found = Math.max(found, pen.measureText(unit.label).width);
  return Math.ceil(Math.min(found, most));
}

function fitted(pen: CanvasRenderingContext2D, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  let letters = Array.from(text);
  while (letters.length > 1 && pen.measureText(letters.join("") + "…").width > room) letters = letters.slice(0, -1);
  return letters.join("") + "…";
}

/** One pixel a cell. */
function image(props: Props, scale: Scale, now: string): HTMLCanvasElement {
  const { rows, columns, values, masked } = props;
  const canvas = document.createElement("canvas");
  const width = columns.length;
  paint(canvas, [rows.length, width], values, scale, now, masked && ((i) => masked(Math.floor(i / width), i % width)));
  return canvas;
}

function hatch(pen: CanvasRenderingContext2D, ink: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const own = tile.getContext("2d")!;
  own.strokeStyle = ink;
  own.globalAlpha = 0.35;
  own.beginPath();
  for (const at of [-6, 0, 6]) {
    own.moveTo(at, 6);
    own.lineTo(at + 6, 0);
  }
  own.stroke();
  return pen.createPattern(tile, "repeat");
}

/** Of each heat map on the page what makes it as a drawing of its own. */
export const drawings = new WeakMap<Element, () => string>();

const CELL = 24;

/** The whole map as SVG, in which text stays text. */
function drawing({ rows, columns, values, masked }: Props, scale: Scale, now: string): string {
  const escape = (text: string) => text.replace(/[<&>]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  const parts = columns.map((one, c) => `<text transform="translate(${160 + (c + 0.5) * CELL} 112) rotate(-45)">${escape(one.label)}</text>`);
  rows.forEach((one, r) => {
    const y = 118 + r * CELL;
    parts.push(`<text x="150" y="${y + 16}" text-anchor="end">${escape(one.label)}</text>`);
    columns.forEach((_, c) => {
      const fill = masked?.(r, c) ? "none" : colour(scale, now, values[r * columns.length + c]);
      parts.push(`<rect x="${154 + c * CELL}" y="${y}" width="${CELL - 1}" height="${CELL - 1}" fill="${fill}"/>`);
    });
  });
  const [ground, ink] = now === "dark" ? ["#15171c", "#ece9e2"] : ["#fdfbf6", "#1d1c19"];
  const size = `width="${270 + columns.length * CELL}" height="${130 + rows.length * CELL}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="13" fill="${ink}"><rect width="100%" height="100%" fill="${ground}"/>${parts.join("")}</svg>`;
}

/** The upper left and the lower right of two corners. */
const range = (a: Cell, b: Cell): [Cell, Cell] => [
  { row: Math.min(a.row, b.row), column: Math.min(a.column, b.column) },
  { row: Math.max(a.row, b.row), column: Math.max(a.column, b.column) },
];

export function Heat(props: Props) {
  const { rows, columns, values, held = null, onHold } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(640);
  const [zoom, setZoom] = useState(1);
  const [cell, setCell] = useState<Cell | null>(null);
  const begun = useRef<Cell | null>(null); // where a range begins that is being drawn
  const corner = useRef<Cell | null>(null); // what comes into sight at the next drawing
  const now = theme();
  const scale = useMemo(() => scaleOf(props.palette, values, props.scale ?? ""), [props.palette, values, props.scale]);
  const picture = useMemo(() => image(props, scale, now), [rows, columns, values, scale, now, props.masked]);
  const shown = held ?? cell;
  const best = useMemo(() => {
    const width = columns.length;
    return rows.map((_, r) => {
      let most = 0;
      for (let c = 1; c < width; c++) if (values[r * width + c] > values[r * width + most]) most = c;
      return values[r * width + most] > 0 ? most : -1;
    });
  }, [rows, values]);

  useLayoutEffect(() => {
    const measure = () => frame.current && setWidth(frame.current.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);

  const sizes = useMemo(() => {
    const pen = document.createElement("canvas").getContext("2d")!;
    const left = Math.min(widest(pen, rows, LABEL) + 14, Math.floor(width * 0.4));
    const room = Math.max(40, width - left - 2);
    const fit = room / Math.max(1, columns.length);
    const size = Math.max(1, Math.min(44, Math.max(columns.length > 200 ? 1 : 7, fit))) * zoom;
    const steep = size < 1.15 * (widest(pen, columns, LABEL) + 8);
    const top = size < 10 ? 8 : steep ? Math.min(widest(pen, columns, 110) * 0.74 + 22, 110) : 26;
    return { left, top: Math.ceil(top), size, steep };
  }, [rows, columns, width, zoom]);
  const { left, top, size, steep } = sizes;
  const tall = Math.min(size, 36 * zoom);
  const whole = { width: left + size * columns.length, height: top + tall * rows.length };
  const high = Math.min(props.height ?? 620, Math.ceil(whole.height) + 2);

  const draw = () => {
    const box = frame.current;
    const own = canvas.current;
    if (!box || !own) return;
    const [w, h] = [box.clientWidth, box.clientHeight];
    const ratio = devicePixelRatio || 1;
    if (own.width !== Math.round(w * ratio) || own.height !== Math.round(h * ratio)) {
      own.width = Math.round(w * ratio);
      own.height = Math.round(h * ratio);
      own.style.width = w + "px";
      own.style.height = h + "px";
    }
    const pen = own.getContext("2d")!;
    const style = getComputedStyle(box);
    const [ground, ink, faint, mark] = ["--ground", "--ink", "--faint", "--mark"].map((name) => style.getPropertyValue(name));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    const [x0, y0] = [left - box.scrollLeft, top - box.scrollTop];
    pen.save();
    pen.beginPath();
    pen.rect(left, top, w - left, h - top);
    pen.clip();
    const [fullWidth, fullHeight] = [size * columns.length, tall * rows.length];
    if (props.masked) {
      pen.save();
      pen.translate(x0, y0);
      pen.fillStyle = hatch(pen, faint) ?? faint;
      pen.fillRect(0, 0, fullWidth, fullHeight);
      pen.restore();
    }
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, x0, y0, fullWidth, fullHeight);
    if (size >= 12) {
      pen.fillStyle = ground;
      for (let c = 1; c < columns.length; c++) pen.fillRect(x0 + c * size - 0.5, y0, 1, fullHeight);
      for (let r = 1; r < rows.length; r++) pen.fillRect(x0, y0 + r * tall - 0.5, fullWidth, 1);
    }
    pen.strokeStyle = mark;
    pen.lineWidth = 1;
    if (props.outlined && size >= 9) best.forEach((c, r) => c >= 0 && pen.strokeRect(x0 + c * size + 1, y0 + r * tall + 1, size - 2, tall - 2));
    if (begun.current && cell) {
      const [a, b] = range(begun.current, cell);
      pen.strokeRect(x0 + a.column * size, y0 + a.row * tall, (b.column + 1 - a.column) * size, (b.row + 1 - a.row) * tall);
    }
    if (shown) {
      pen.strokeRect(x0, y0 + shown.row * tall, fullWidth, tall);
      pen.strokeRect(x0 + shown.column * size, y0, size, fullHeight);
      pen.lineWidth = 2.5;
      pen.strokeRect(x0 + shown.column * size, y0 + shown.row * tall, size, tall);
    }
    pen.restore();
    pen.font = FONT;
    pen.textBaseline = "middle";
    labels(pen, { w, h, x0, y0, ink, faint, mark });
  };

  const labels = (
    pen: CanvasRenderingContext2D,
    at: { w: number; h: number; x0: number; y0: number; ink: string; faint: string; mark: string },
  ) => {
    const everyRow = Math.max(1, Math.ceil(14 / tall));
    pen.save();
    pen.beginPath();
    pen.rect(0, top, left, at.h - top);
    pen.clip();
    pen.textAlign = "right";
    for (let r = 0; r < rows.length; r++) {
      const y = at.y0 + (r + 0.5) * tall;
      if (y < top - tall || y > at.h + tall || (r % everyRow && shown?.row !== r)) continue;
      pen.fillStyle = shown?.row === r ? at.mark : rows[r].special ? at.faint : at.ink;
      if (everyRow > 1 && shown && shown.row !== r && Math.abs(shown.row - r) < everyRow) continue;
      pen.fillText(fitted(pen, rows[r].label, left - 12), left - 8, y);
    }
    pen.restore();
    if (size < 10 && !shown) return;
    pen.save();
    pen.beginPath();
    pen.rect(left - 10, 0, at.w - left + 10, top);
    pen.clip();
    const everyColumn = size < 10 ? Infinity : Math.max(1, Math.ceil(15 / size));
    for (let c = 0; c < columns.length; c++) {
      const x = at.x0 + (c + 0.5) * size;
      const own = shown?.column === c;
      if (x < left - size || x > at.w + size || (!own && (everyColumn === Infinity || c % everyColumn))) continue;
      pen.fillStyle = own ? at.mark : columns[c].special ? at.faint : at.ink;
      pen.save();
      pen.translate(x, top - 7);
      if (steep) pen.rotate(-Math.PI / 4);
      pen.textAlign = steep ? "left" : "center";
      if (size >= 10) pen.fillText(fitted(pen, columns[c].label, steep ? 105 : size - 4), 0, steep ? 0 : -4);
      pen.restore();
    }
    pen.restore();
  };

  useLayoutEffect(() => {
    const [box, at] = [frame.current, corner.current];
    if (box && at) {
      corner.current = null;
      box.scrollTo(at.column * size, at.row * tall);
    }
    draw();
  });
  useEffect(() => {
    if (frame.current) drawings.set(frame.current, () => drawing(props, scale, now));
  });

  const find = (event: MouseEvent): Cell | null => {
    const box = frame.current!;
    const bounds = box.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    if (x < left || y < top) return null;
    const column = Math.floor((x - left + box.scrollLeft) / size);
    const row = Math.floor((y - top + box.scrollTop) / tall);
    return column < columns.length && row < rows.length ? { row, column } : null;
  };
  const hover = (next: Cell | null) => {
    if (next?.row === cell?.row && next?.column === cell?.column) return;
    setCell(next);
  };
  /** Enlarge a range of rows and columns to what there is room for. */
  const enlarge = (one: Cell, other: Cell) => {
    const [a, b] = range(one, other);
    const times = Math.min((width - left) / (size * (b.column + 1 - a.column)), (high - top) / (tall * (b.row + 1 - a.row)));
    corner.current = a;
    setZoom(Math.min(24, zoom * Math.max(1, times)));
  };
  const step = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const at = shown ?? { row: 0, column: -1 };
    const next = { ...at };
    if (event.key === "ArrowRight") next.column++;
    else if (event.key === "ArrowLeft") next.column--;
    else if (event.key === "ArrowDown") next.row++;
    else if (event.key === "ArrowUp") next.row--;
    else if (event.key === "Home") next.column = 0;
    else if (event.key === "End") next.column = columns.length - 1;
    else if (event.key === "PageDown") next.row += 10;
    else if (event.key === "PageUp") next.row -= 10;
    else if (event.key === "Escape") {
      onHold?.(null);
      hover(null);
      return;
    } else if (event.key === "Enter" || event.key === " ") {
      if (shown) onHold?.(held ? null : shown);
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
    next.row = Math.max(0, Math.min(rows.length - 1, next.row));
    next.column = Math.max(0, Math.min(columns.length - 1, next.column));
    if (held) onHold?.(next);
    hover(next);
    const box = frame.current!;
    const [x, y] = [next.column * size, next.row * tall];
    if (x < box.scrollLeft) box.scrollLeft = x;
    else if (x + size > box.scrollLeft + box.clientWidth - left) box.scrollLeft = x + size - box.clientWidth + left;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + tall > box.scrollTop + box.clientHeight - top) box.scrollTop = y + tall - box.clientHeight + top;
  };

  if (!rows.length || !columns.length) return <Note>{say("empty")}</Note>;
  return (
    <div class="heat">
      <div
        class="heat-frame"
        ref={frame}
        tabIndex={0}
        role="application"
        aria-roledescription={say("heat.role")}
        aria-label={`${props.name}. ${say("heat.how")}`}
        style={{ height: high + "px" }}
        onScroll={draw}
        onMouseMove={(event) => hover(find(event))}
        onMouseDown={(event) => (begun.current = find(event))}
        onMouseLeave={() => { begun.current = null; hover(null); }}
        onDblClick={() => setZoom(1)}
        onClick={(event) => {
          const found = find(event);
          const from = begun.current;
          begun.current = null;
          if (from && found && Math.max(Math.abs(from.row - found.row) * tall, Math.abs(from.column - found.column) * size) > 9) return enlarge(from, found);
          onHold?.(held && found && held.row === found.row && held.column === found.column ? null : found);
        }}
        onKeyDown={step}
      >
        <canvas ref={canvas} aria-hidden />
        <div class="heat-whole" style={{ width: whole.width + "px", height: whole.height + "px" }} />
      </div>
      <div class="heat-foot">
        <Readout props={props} cell={shown} />
        <Legend scale={scale} note={props.note} />
        <span class="buttons">
          <button onClick={() => setZoom(Math.max(0.25, zoom / 1.6))} aria-label={say("zoom.out")}>−</button>
          <button onClick={() => setZoom(Math.min(24, zoom * 1.6))} aria-label={say("zoom.in")}>+</button>
        </span>
      </div>
    </div>
  );
}

function Readout({ props, cell }: { props: Props; cell: Cell | null }) {
  const [spoken, speak] = useState("");
  const { rows, columns, values } = props;
  let text = "";
  if (cell && rows[cell.row] && columns[cell.column]) {
    const base = cell.row * columns.length;
    const value = values[base + cell.column];
    const own = Array.from(values.subarray(base, base + columns.length));
    const rank = 1 + own.filter((one) => one > value).length;
    const hidden = props.masked?.(cell.row, cell.column);
    const verb = props.verb ?? say("looks");
    text = `${rows[cell.row].title} ${verb} ${columns[cell.column].title}: `;
    text += hidden ? say(columns.every((_, c) => props.masked!(cell.row, c)) ? "masked.row" : "masked") : `${digits(value)} (${say("rank", { n: rank })})`;
  }
  useEffect(() => {
    const timer = setTimeout(() => speak(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <>
      <output class="readout"><bdi>{text || say("heat.idle")}</bdi></output>
      <span class="unseen" aria-live="polite">{spoken}</span>
    </>
  );
}

export function Legend({ scale, note }: { scale: Scale; note?: string }) {
  const now = theme();
  const steps = 24;
  return (
    <span class="legend" role="img" aria-label={say("legend", { low: digits(scale.low), high: digits(scale.high) })}>
      <span>{digits(scale.low)}</span>
      <span class="ramp">
        {times(steps, (i) => (
          <i style={{ background: tint(scale.palette, now, Math.round((255 * i) / (steps - 1))) }} />
        ))}
      </span>
      <span>{digits(scale.high)}{scale.log ? " · log" : ""}{note && " · " + note}</span>
    </span>
  );
}
