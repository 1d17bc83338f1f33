// What changed the prediction: each input token's share of it, by several methods.
import { useMemo } from "preact/hooks";
import { useBlocks } from "../blocks";
import { Heat } from "../heat";
import { specials, useLook, wordy } from "../look";
import { colour, scaleOf, textOn } from "../palette";
import { Bars, Choice, Fact, matrixTable, Note, Numbers, Tools, Wait } from "../parts";
import { named, say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, entry, percent, unit, units, type Unit } from "../text";
import { theme } from "../theme";
import type { Attribution, Trace } from "../trace";
import { Looks } from "./map";

/** The rows of a block of attributions: the places that were asked about. */
function rowsOf(trace: Trace, one: Attribution): Unit[] {
  const all = trace.sides[one.rows] ? units(trace.sides[one.rows], "piece", true) : [];
  const best = trace.classes?.[0]?.label ?? say("class");
  return one.places.map((place, i) => ({ ...(all[place] ?? unit(best, [])), tokens: [i] }));
}

/** A rollout as if it were an attribution: what each token of a half is made of. */
const rolled = (trace: Trace) => ({ side, block }: Trace["rollout"][number]): Attribution => ({
  method: "rollout", rows: side, columns: side, places: trace.sides[side].tokens.map((_, i) => i), block, what: say("why.rollout"), contrast: null, steps: null, error: null, total: null,
});

export function Why() {
  const { trace, blocks, server } = useLook();
  const all = [...trace.attributions, ...trace.rollout.map(rolled(trace))];
  const usual = Math.max(0, all.findIndex((its) => its.columns === "source"));
  const index = Math.min(all.length - 1, Math.max(0, getNumber("method", usual)));
  const one = all[index];
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
  }, [trace, one?.block, found === undefined, wordy(), specials()]);
  if (!one) return <Note>{say("why.none")}</Note>;
  return (
    <>
      <Tools>
        <Choice
          label={say("method")}
          value={String(index)}
          options={all.map((its, i) => [String(i), `${named("method.", its.method)} · ${named("side.", its.columns)}` + (its.contrast ? ` · ${entry(trace, its.contrast.chosen)} / ${entry(trace, its.contrast.other)}` : "")])}
          onChange={(method) => set({ method, q: null })}
        />
        <Looks scale={false} />
        {server && !get("all") && <button onClick={() => set({ all: 1 })}>{say("why.more")}</button>}
      </Tools>
      {made ? <Shares one={one} {...made} /> : <Wait />}
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
        <Fact name={say("why.of")}><bdi>{one.what}</bdi></Fact>
        {one.total && <Fact name={say("why.total")}>{digits(one.total[row] ?? 0)}</Fact>}
        {one.error && <Fact name={say("why.error")}>{digits(one.error[row] ?? 0)}</Fact>}
        {one.steps !== null && <Fact name={say("why.steps")}>{one.steps}</Fact>}
        {trace.predictions?.chosen[place] && one.rows === trace.predictions.rows && (
          <Fact name={say("probability")}>{percent(trace.predictions.chosen[place]!.p)}</Fact>
        )}
      </dl>
      {rows.length > 1 && (
        <Heat name={named("method.", one.method)} rows={rows} columns={columns} values={values} palette="signed" verb="←" scale={get("scale")} held={null} onHold={(cell) => cell && set({ q: cell.row })} />
      )}
      <Numbers name={named("method.", one.method)} {...matrixTable(rows, columns, values)} />
    </>
  );
}
