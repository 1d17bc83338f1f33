// What changed the prediction: each input token's share of it, by several methods.
import { useMemo } from "preact/hooks";
import { useBlocks } from "../blocks";
import { Heat } from "../heat";
import { specials, useLook, wordy } from "../look";
import { colour, scaleOf, textOn } from "../palette";
import { About, Bars, Choice, matrixTable, Note, Numbers } from "../parts";
import { named, say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, entry, percent, units, type Unit } from "../text";
import { theme } from "../theme";
import type { Attribution, Trace } from "../trace";
import { Looks } from "./map";

/** The rows of a block of attributions: the places that were asked about. */
function rowsOf(trace: Trace, one: Attribution): Unit[] {
  const all = trace.sides[one.rows] ? units(trace.sides[one.rows], "piece", true) : [];
  const best = trace.classes?.[0]?.label ?? say("class");
  return one.places.map((place, i) => ({ ...(all[place] ?? { label: best, title: best, special: false }), tokens: [i] }));
}

export function Why() {
  const { trace, blocks, server } = useLook();
  const usual = Math.max(0, trace.attributions.findIndex((its) => its.columns === "source"));
  const index = Math.min(trace.attributions.length - 1, Math.max(0, getNumber("method", usual)));
  const one = trace.attributions[index];
  const found = useBlocks(blocks, [one?.block ?? null]);
  const wide = one ? trace.sides[one.columns].tokens.length : 0;
  const made = useMemo(() => {
    if (!one || !found?.[0]) return null;
    const columns = units(trace.sides[one.columns], wordy() ? "word" : "piece", specials());
    const rows = rowsOf(trace, one);
    const values = new Float32Array(rows.length * columns.length);
    rows.forEach((row, r) => columns.forEach((column, c) => {
      for (const k of column.tokens) values[r * columns.length + c] += found[0]![row.tokens[0] * wide + k];
    }));
    return { rows, columns, values };
  }, [one, found === undefined, wordy(), specials()]);
  if (!one) return <><About view="why" /><Note>{say("why.none")}</Note></>;
  return (
    <>
      <About view="why" />
      <div class="tools">
        <Choice
          label={say("method")}
          value={String(index)}
          options={trace.attributions.map((its, i) => [String(i), `${named("method.", its.method)} · ${named("side.", its.columns)}` + (its.contrast ? ` · ${entry(trace, its.contrast.chosen)} / ${entry(trace, its.contrast.other)}` : "")])}
          onChange={(method) => set({ method, q: null })}
        />
        <Looks scale={false} />
        {server && !get("all") && <button type="button" onClick={() => set({ all: 1 })}>{say("why.more")}</button>}
      </div>
      {made ? <Shares one={one} {...made} /> : <p class="note">{say("loading")}</p>}
    </>
  );
}

function Shares({ one, rows, columns, values }: { one: Attribution; rows: Unit[]; columns: Unit[]; values: Float32Array }) {
  const { trace } = useLook();
  const now = theme();
  const row = Math.max(0, Math.min(rows.length - 1, getNumber("q", 0)));
  const own = values.subarray(row * columns.length, (row + 1) * columns.length);
  const scale = scaleOf("signed", own, "");
  const place = one.places[row] ?? 0;
  const order = columns.map((_, c) => c).sort((a, b) => Math.abs(own[b]) - Math.abs(own[a]));
  return (
    <>
      {one.contrast && <Note>{say("why.contrast", { chosen: entry(trace, one.contrast.chosen), other: entry(trace, one.contrast.other) })}</Note>}
      {rows.length > 1 && (
        <Choice label={say("place")} value={String(row)} options={rows.map((unit, i) => [String(i), `${i} ${unit.label}`])} onChange={(i) => set({ q: i })} />
      )}
      <p class="shaded">
        {columns.map((unit, c) => (
          <span title={`${unit.title}: ${digits(own[c])}`} style={{ background: colour(scale, now, own[c]), color: textOn(scale, now, own[c]) }}>
            <bdi>{unit.label}</bdi>
          </span>
        ))}
      </p>
      <Bars name={one.what} items={order.slice(0, 12).map((c) => ({ label: columns[c].label, value: own[c], note: digits(own[c]) }))} />
      <dl class="facts">
        <div><dt>{say("why.of")}</dt><dd><bdi>{one.what}</bdi></dd></div>
        {one.total && <div><dt>{say("why.total")}</dt><dd>{digits(one.total[row] ?? 0)}</dd></div>}
        {one.error && <div><dt>{say("why.error")}</dt><dd>{digits(one.error[row] ?? 0)}</dd></div>}
        {one.steps !== null && <div><dt>{say("why.steps")}</dt><dd>{one.steps}</dd></div>}
        {trace.predictions?.chosen[place] && one.rows === trace.predictions.rows && (
          <div><dt>{say("probability")}</dt><dd>{percent(trace.predictions.chosen[place]!.p)}</dd></div>
        )}
      </dl>
      {rows.length > 1 && (
        <Heat name={named("method.", one.method)} rows={rows} columns={columns} values={values} palette="signed" verb="←" scale={get("scale")} held={null} onHold={(cell) => cell && set({ q: cell.row })} />
      )}
      <Numbers name={named("method.", one.method)} {...matrixTable(rows, columns, values)} />
    </>
  );
}
