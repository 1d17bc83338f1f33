// Which words were looked at for this word: two lines of text that shade each other, and the heat map behind them.
import { useState } from "preact/hooks";
import { chosen, chosenHead, useLook, useShown, type Shown } from "../look";
import { colour, textOn, type Scale } from "../palette";
import { along, Note, Tools } from "../parts";
import { say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, percent, type Unit } from "../text";
import { theme } from "../theme";
import { AttentionMap, Looks, Pickers } from "./map";

const SHARE: Scale = { palette: "ink", low: 0, high: 1, log: false };

function Line(props: {
  name: string;
  units: Unit[];
  shade: (index: number) => number;
  held: number;
  onHover: (index: number) => void;
  onHold: (index: number) => void;
}) {
  return (
    <div class="line" role="group" aria-label={props.name}>
      <span class="line-name">{props.name}</span>
      <div class="line-words">
        {props.units.map((unit, index) => {
          const value = props.shade(index);
          const now = theme();
          return (
            <button
              class={"word" + (props.held === index ? " held" : "") + (unit.special ? " special" : "")}
              aria-pressed={props.held === index}
              tabIndex={index === Math.max(0, props.held) ? 0 : -1}
              title={value > 0 ? `${unit.title}: ${percent(value)}` : unit.title}
              style={value > 0.005 ? { background: colour(SHARE, now, value), color: textOn(SHARE, now, value) } : {}}
              onMouseEnter={() => props.onHover(index)}
              onMouseLeave={() => props.onHover(-1)}
              onFocus={() => props.onHover(index)}
              onClick={() => props.onHold(index)}
              onKeyDown={(event) => along(event, event.currentTarget.parentElement!.querySelectorAll("button"))}
            >
              <bdi>{unit.label}</bdi>
              {value > 0.005 && <small>{Math.round(100 * value)}</small>}
            </button>
          );
        })}
      </div>
    </div>
  );
}

function Pair({ shown }: { shown: Shown }) {
  const [row, setRow] = useState(-1);
  const [column, setColumn] = useState(-1);
  const held = getNumber("q", -1);
  const width = shown.columns.length;
  const at = row >= 0 ? row : column >= 0 ? -1 : held;
  const text = at >= 0 && shown.rows[at] ? strongest(shown, at) : "";
  const { trace } = useLook();
  const attention = chosen(trace)!;
  return (
    <div class="pair">
      <Line
        name={say(attention.kind === "cross" ? "side.source" : "columns")}
        units={shown.columns}
        shade={(c) => (at >= 0 ? shown.values[at * width + c] : 0)}
        held={-1}
        onHover={(c) => { setRow(-1); setColumn(c); }}
        onHold={(c) => setColumn(c)}
      />
      <Line
        name={say(attention.kind === "cross" ? "side.target" : "rows")}
        units={shown.rows}
        shade={(r) => (column >= 0 && row < 0 ? shown.values[r * width + column] : 0)}
        held={held}
        onHover={(r) => { setColumn(-1); setRow(r); }}
        onHold={(r) => set({ q: held === r ? null : r, k: null })}
      />
      <p class="readout" aria-live="polite"><bdi>{text || say("pair.idle")}</bdi></p>
    </div>
  );
}

function strongest(shown: Shown, row: number): string {
  const width = shown.columns.length;
  const order = shown.columns.map((_, c) => c).sort((a, b) => shown.values[row * width + b] - shown.values[row * width + a]);
  const parts = order.slice(0, 3).map((c) => `${shown.columns[c].title} ${digits(shown.values[row * width + c])}`);
  return `${shown.rows[row].title} ${say("looks")} ${parts.join(", ")}`;
}

export function Align() {
  const { trace } = useLook();
  const attention = chosen(trace);
  const head = attention ? chosenHead(trace, attention) : -1;
  const shown = useShown(attention, head);
  if (!attention) return <Note>{say("no.attention")}</Note>;
  const best = trace.alignment;
  const fixed = trace.task === "translate" && !best;
  return (
    <>
      {fixed && <Note>{say("no.cross")}</Note>}
      <Tools><Pickers /><Looks /></Tools>
      {best && best.attention === attention.name && (
        <Note>
          {best.head === null ? say("best.mean") : say("best.head", { layer: best.layer, head: best.head })}{" "}
          {best.measured && best.agreement !== null
            ? say("best.measured", { share: percent(best.agreement), chance: percent(best.baseline ?? 0) })
            : say("best.assumed")}
        </Note>
      )}
      {shown && shown.rows.length + shown.columns.length <= 240 && <Pair shown={shown} />}
      <AttentionMap key={get("kind") + get("layer") + get("head")} />
    </>
  );
}
