// The heads of one layer: two columns of tokens and a line for every weight worth drawing.
import { useMemo, useState } from "preact/hooks";
import { useBlocks } from "../blocks";
import { axes, chosen, keptHeads, part, useLook } from "../look";
import { Dash, dash, Note, Numbers, pressed, Tools, Wait } from "../parts";
import { say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, gather, short, times, type Unit } from "../text";
import type { Attention, Trace } from "../trace";
import { attentionName, Looks, Part, Pickers } from "./map";

const LEAST = 0.06;
const MOST = 3000;
const STEP = 26;
/** So many rows of a long text at once, and columns that they look at. */
const ROWS = 48;
const COLUMNS = 96;

interface Line {
  head: number;
  row: number;
  column: number;
  weight: number;
}

interface Lines {
  rows: Unit[];
  columns: Unit[];
  lines: Line[];
  /** Lines that are not drawn. */
  left: number;
  /** Of each row, in the mean of the heads, what the keys have that the trace does not name. */
  rest?: number[];
}

function heads(told: string, all: number[]): number[] {
  if (!told) return all;
  const found = told.split(",").map(Number).filter((head) => all.includes(head));
  return found.length ? found : all;
}

/** Every weight that is worth a line. */
function whole(trace: Trace, attention: Attention, on: number[], weights: Float32Array[]): Lines {
  const { rows, columns } = axes(trace, attention);
  const lines: Line[] = [];
  weights.forEach((own, i) => {
    gather(own, attention.size[1], rows, columns).forEach((weight, at) => {
      if (weight >= LEAST) lines.push({ head: on[i], row: Math.floor(at / columns.length), column: at % columns.length, weight });
    });
  });
  lines.sort((a, b) => b.weight - a.weight);
  return { rows, columns, lines: lines.slice(0, MOST), left: Math.max(0, lines.length - MOST) };
}

/** Of a long text some rows, the keys that each looks at most, and no columns but these. */
function far(trace: Trace, attention: Attention, on: number[], [keys, weights, rest]: Float32Array[], from: number, to: number): Lines {
  const all = axes(trace, attention);
  const rows = all.rows.slice(from, to);
  const [queries, each] = [attention.size[0], keys.length / attention.heads / attention.size[0]];
  const columnOf = new Map<number, number>();
  all.columns.forEach((column, c) => column.tokens.forEach((token) => columnOf.set(token, c)));
  const sums = new Map<string, Line>();
  const most = new Map<number, number>();
  const left = rows.map(() => 0);
  for (const head of on) rows.forEach((unit, row) => unit.tokens.forEach((token) => {
    left[row] += rest[head * queries + token] / unit.tokens.length / on.length;
    for (let n = 0; n < each; n++) {
      const at = (head * queries + token) * each + n;
      const column = columnOf.get(keys[at]);
      if (column === undefined) continue;
      const line = sums.get(`${head} ${row} ${column}`) ?? { head, row, column, weight: 0 };
      line.weight += weights[at] / unit.tokens.length;
      sums.set(`${head} ${row} ${column}`, line);
      most.set(column, Math.max(most.get(column) ?? 0, line.weight));
    }
  }));
  const best = [...most].sort((a, b) => b[1] - a[1]).slice(0, COLUMNS).map(([column]) => column).sort((a, b) => a - b);
  const placed = new Map(best.map((column, place) => [column, place]));
  const lines = [...sums.values()].filter((line) => placed.has(line.column));
  lines.sort((a, b) => b.weight - a.weight);
  return {
    rows,
    columns: best.map((column) => all.columns[column]),
    lines: lines.map((line) => ({ ...line, column: placed.get(line.column)! })),
    left: sums.size - lines.length,
    rest: left,
  };
}

export function Heads() {
  const { trace, blocks } = useLook();
  const attention = chosen(trace);
  const top = attention?.top;
  const all = !attention ? [] : top ? times(attention.heads, (head) => head) : keptHeads(attention).map(Number);
  const on = heads(get("heads"), all);
  const found = useBlocks(blocks, !attention ? [] : top ? [top.keys, top.weights, top.rest] : on.map((head) => attention.weights[head]));
  const [point, setPoint] = useState<[string, number] | null>(null);
  const count = useMemo(() => (attention ? axes(trace, attention).rows.length : 0), [attention, get("unit"), get("spec")]);
  const [from, to] = top ? part("r", count, ROWS, ROWS) : [0, count];
  const key = `${attention?.name}${on}${get("unit")}${get("spec")}${get("rows")}${from}${found === undefined}`;
  const made = useMemo(() => {
    if (!attention || !found) return null;
    return top ? far(trace, attention, on, found as Float32Array[], from, to) : whole(trace, attention, on, found as Float32Array[]);
  }, [key]);
  if (!attention) return <Note>{say("no.attention")}</Note>;
  if (!all.length) return <Note>{say("overview.only")}</Note>;
  const turn = (head: number) => {
    const next = on.includes(head) ? on.filter((one) => one !== head) : [...on, head].sort((a, b) => a - b);
    set({ heads: next.length === all.length || !next.length ? null : next.join() });
  };
  return (
    <>
      <Tools><Pickers heads={false} /><Looks scale={false} /></Tools>
      <div class="head-chips" role="group" aria-label={say("heads")}>
        {all.map((head) => (
          <button class="head-chip" aria-pressed={on.includes(head)} onClick={() => turn(head)} onDblClick={() => set({ heads: String(head) })}>
            <Dash head={head} />
            {head}
          </button>
        ))}
      </div>
      {top && <Note>{say("heads.far")}</Note>}
      {to - from < count && <Part name="r" label={say("rows")} from={from} count={count} each={ROWS} />}
      {made ? <Web {...made} first={from} attention={attentionName(attention)} point={point} onPoint={setPoint} /> : <Wait />}
      {made && made.left > 0 && <Note>{say("lines.left", { n: made.left })}</Note>}
      {made && (
        <Numbers
          name={attentionName(attention)}
          head={[say("head"), say("row"), say("column"), say("weight")]}
          body={() => made.lines.slice(0, 400).map((line) => [String(line.head), made.rows[line.row].label, made.columns[line.column].label, line.weight])}
        />
      )}
    </>
  );
}

function Web(props: Lines & {
  /** The number of the first row. */
  first: number;
  attention: string;
  point: [string, number] | null;
  onPoint: (point: [string, number] | null) => void;
}) {
  const { rows, columns, lines, point, rest, first } = props;
  const held = getNumber("q", -1) - first;
  const at: [string, number] | null = point ?? (held >= 0 && held < rows.length ? ["row", held] : null);
  const width = 640;
  const [left, right] = [190, width - 190];
  const middle = (i: number) => i * STEP + STEP / 2 + 2;
  const height = STEP * Math.max(rows.length, columns.length) + 10;
  const lit = (line: Line) => !at || (at[0] === "row" ? line.row === at[1] : line.column === at[1]);
  const column = (units: Unit[], side: string, x: number) =>
    units.map((unit, i) => (
      <g
        class={"web-word" + (at?.[0] === side && at[1] === i ? " held" : "") + (unit.special ? " special" : "")}
        {...pressed(`[data-side=${side}]`, i === 0, () => side === "row" && set({ q: held === i ? null : i + first, k: null }))}
        data-side={side}
        onMouseEnter={() => props.onPoint([side, i])}
        onMouseLeave={() => props.onPoint(null)}
        onFocus={() => props.onPoint([side, i])}
        onBlur={() => props.onPoint(null)}
      >
        <rect x={side === "row" ? 0 : right} y={i * STEP + 2} width={190} height={STEP - 2} />
        <text x={x} y={middle(i)} text-anchor={side === "row" ? "end" : "start"} dominant-baseline="middle">
          {short(unit.label, 22)}
        </text>
      </g>
    ));
  const said = at ? lines.filter(lit).slice(0, 4).map((line) => `${rows[line.row].title} → ${columns[line.column].title} ${digits(line.weight)} (${say("head")} ${line.head})`).join(", ") + (rest && at[0] === "row" ? ` · ${say("heads.rest", { share: digits(rest[at[1]]) })}` : "") : "";
  return (
    <figure>
      <div class="web-frame">
        <svg class="web" viewBox={`0 0 ${width} ${height}`} role="group" aria-label={say("heads.picture", { name: props.attention, n: lines.length })}>
          {lines.map((line) => (
            <path
              d={`M${left} ${middle(line.row)}C${left + 90} ${middle(line.row)} ${right - 90} ${middle(line.column)} ${right} ${middle(line.column)}`}
              {...dash(line.head)}
              stroke-width={0.6 + 3.4 * line.weight}
              opacity={lit(line) ? Math.min(1, 0.15 + line.weight) : 0.04}
              fill="none"
            />
          ))}
          {rest?.map((share, row) => <path class="axis" d={`M${left} ${middle(row) + 5}h${60 * share}`} stroke-width="4"><title>{say("heads.rest", { share: digits(share) })}</title></path>)}
          {column(rows, "row", left - 8)}
          {column(columns, "column", right + 8)}
        </svg>
      </div>
      <p class="readout" aria-live="polite"><bdi>{said || say("heads.idle")}</bdi></p>
    </figure>
  );
}
