// The heads of one layer: two columns of tokens and a line for every weight worth drawing.
import { useMemo, useState } from "preact/hooks";
import { useBlocks } from "../blocks";
import { axes, chosen, useLook } from "../look";
import { DASHES, HEADS } from "../palette";
import { About, Note, Numbers } from "../parts";
import { say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, gather, type Unit } from "../text";
import { attentionName, Looks, Pickers } from "./map";

const LEAST = 0.06;
const MOST = 3000;
const STEP = 26;

interface Line {
  head: number;
  row: number;
  column: number;
  weight: number;
}

function heads(told: string, all: number[]): number[] {
  if (!told) return all;
  const found = told.split(",").map(Number).filter((head) => all.includes(head));
  return found.length ? found : all;
}

export function Heads() {
  const { trace, blocks } = useLook();
  const attention = chosen(trace);
  const all = attention ? Object.keys(attention.weights).map(Number) : [];
  const on = heads(get("heads"), all);
  const found = useBlocks(blocks, attention ? on.map((head) => attention.weights[head]) : []);
  const [point, setPoint] = useState<[string, number] | null>(null);
  const key = `${attention?.name}${on}${get("unit")}${get("spec")}${found === undefined}`;
  const made = useMemo(() => {
    if (!attention || !found) return null;
    const { rows, columns } = axes(trace, attention);
    const lines: Line[] = [];
    found.forEach((weights, i) => {
      const values = gather(weights!, attention.size[1], rows, columns);
      rows.forEach((_, row) =>
        columns.forEach((_, column) => {
          const weight = values[row * columns.length + column];
          if (weight >= LEAST) lines.push({ head: on[i], row, column, weight });
        }),
      );
    });
    lines.sort((a, b) => b.weight - a.weight);
    return { rows, columns, lines: lines.slice(0, MOST), left: Math.max(0, lines.length - MOST) };
  }, [key]);
  if (!attention) return <Note>{say("no.attention")}</Note>;
  if (!all.length) return <Note>{say("overview.only")}</Note>;
  const turn = (head: number) => {
    const next = on.includes(head) ? on.filter((one) => one !== head) : [...on, head].sort((a, b) => a - b);
    set({ heads: next.length === all.length || !next.length ? null : next.join() });
  };
  return (
    <>
      <About view="heads" />
      <div class="tools"><Pickers heads={false} /><Looks scale={false} /></div>
      <div class="head-chips" role="group" aria-label={say("heads")}>
        {all.map((head) => (
          <button type="button" class="head-chip" aria-pressed={on.includes(head)} onClick={() => turn(head)} onDblClick={() => set({ heads: String(head) })}>
            <svg width="26" height="6" aria-hidden="true"><path d="M1 3H25" stroke={HEADS[head % 8]} stroke-width="3" stroke-dasharray={DASHES[head % 8]} /></svg>
            {head}
          </button>
        ))}
      </div>
      {made ? <Web {...made} attention={attentionName(attention)} point={point} onPoint={setPoint} /> : <p class="note">{say("loading")}</p>}
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

function Web(props: {
  rows: Unit[];
  columns: Unit[];
  lines: Line[];
  attention: string;
  point: [string, number] | null;
  onPoint: (point: [string, number] | null) => void;
}) {
  const { rows, columns, lines, point } = props;
  const held = getNumber("q", -1);
  const at: [string, number] | null = point ?? (held >= 0 ? ["row", held] : null);
  const width = 640;
  const [left, right] = [190, width - 190];
  const height = STEP * Math.max(rows.length, columns.length) + 10;
  const lit = (line: Line) => !at || (at[0] === "row" ? line.row === at[1] : line.column === at[1]);
  const column = (units: Unit[], side: string, x: number) =>
    units.map((unit, i) => (
      <g
        class={"web-word" + (at?.[0] === side && at[1] === i ? " held" : "") + (unit.special ? " special" : "")}
        onMouseEnter={() => props.onPoint([side, i])}
        onMouseLeave={() => props.onPoint(null)}
        onClick={() => side === "row" && set({ q: held === i ? null : i, k: null })}
      >
        <rect x={side === "row" ? 0 : right} y={i * STEP + 2} width={190} height={STEP - 2} />
        <text x={x} y={i * STEP + STEP / 2 + 2} text-anchor={side === "row" ? "end" : "start"} dominant-baseline="middle">
          {unit.label.length > 22 ? unit.label.slice(0, 21) + "…" : unit.label}
        </text>
      </g>
    ));
  const said = at ? lines.filter(lit).slice(0, 4).map((line) => `${rows[line.row].title} → ${columns[line.column].title} ${digits(line.weight)} (${say("head")} ${line.head})`).join(", ") : "";
  return (
    <figure>
      <div class="web-frame">
        <svg class="web" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={say("heads.picture", { name: props.attention, n: lines.length })}>
          {lines.map((line) => (
            <path
              d={`M${left} ${line.row * STEP + STEP / 2 + 2}C${left + 90} ${line.row * STEP + STEP / 2 + 2} ${right - 90} ${line.column * STEP + STEP / 2 + 2} ${right} ${line.column * STEP + STEP / 2 + 2}`}
              stroke={HEADS[line.head % 8]}
              stroke-width={0.6 + 3.4 * line.weight}
              stroke-dasharray={DASHES[line.head % 8]}
              opacity={lit(line) ? Math.min(1, 0.15 + line.weight) : 0.04}
              fill="none"
            />
          ))}
          {column(rows, "row", left - 8)}
          {column(columns, "column", right + 8)}
        </svg>
      </div>
      <p class="readout" aria-live="polite"><bdi>{said || say("heads.idle")}</bdi></p>
    </figure>
  );
}
