// One attention as a heat map, with the pickers that choose it.
import { useState } from "preact/hooks";
import { Heat, type Cell } from "../heat";
import { chosen, chosenHead, groupOf, groups, palette, specials, useLook, useShown, wordy, type Shown } from "../look";
import { PALETTES } from "../palette";
import { Choice, matrixTable, Note, Numbers, Switch } from "../parts";
import { named, say } from "../say";
import { get, getNumber, set } from "../state";
import { digits } from "../text";
import { TOLERANCE, type Attention } from "../trace";

/** What an attention is called on the page. */
export const attentionName = (attention: Attention) => `${named("group.", groupOf(attention))} · ${say("layer")} ${attention.layer}`;

/** Which attention, layer and head; with `heads` false no head. */
export function Pickers({ heads = true }: { heads?: boolean }) {
  const { trace } = useLook();
  const attention = chosen(trace);
  if (!attention) return null;
  const group = groupOf(attention);
  const layers = trace.attentions.filter((one) => groupOf(one) === group);
  const head = chosenHead(trace, attention);
  const best = trace.alignment;
  const mark = (h: number) => (best?.attention === attention.name && best.head === h ? " ★" : "");
  return (
    <>
      <Choice
        label={say("attention")}
        value={group}
        options={groups(trace).map((one) => [one, named("group.", one)])}
        onChange={(kind) => set({ kind, layer: null, head: "mean", q: null })}
      />
      <Choice
        label={say("layer")}
        value={String(attention.layer)}
        options={layers.map((one) => [String(one.layer), String(one.layer)])}
        onChange={(layer) => set({ kind: group, layer, head: head < 0 ? "mean" : head })}
      />
      {heads && (
        <Choice
          label={say("head")}
          value={head < 0 ? "mean" : String(head)}
          options={[
            ["mean", say("mean")],
            ...Object.keys(attention.weights).map((h): [string, string] => [h, h + mark(Number(h))]),
          ]}
          onChange={(one) => set({ kind: group, layer: attention.layer, head: one })}
        />
      )}
    </>
  );
}

export function Looks({ scale = true }: { scale?: boolean }) {
  return (
    <>
      <Switch label={say("words")} on={wordy()} onChange={(on) => set({ unit: on ? "word" : null, q: null })} />
      <Switch label={say("specials")} on={specials()} onChange={(on) => set({ spec: on ? null : "0", q: null })} />
      {scale && (
        <Choice
          label={say("scale")}
          value={get("scale")}
          options={[["", say("scale.one")], ["most", say("scale.most")], ["log", say("scale.log")]]}
          onChange={(one) => set({ scale: one || null })}
        />
      )}
      <Choice
        label={say("palette")}
        value={palette()}
        options={PALETTES.map((one) => [one, named("palette.", one)])}
        onChange={(one) => set({ pal: one === "ink" ? null : one })}
      />
    </>
  );
}

export function Checks({ attention }: { attention: Attention }) {
  const { row_sum, output, dtype, kernel } = attention.checks;
  const wrong = row_sum > TOLERANCE || (output ?? 0) > TOLERANCE;
  return (
    <p class={wrong ? "checks wrong" : "checks"}>
      {wrong ? "⚠ " : "✓ "}
      {say(wrong ? "checks.wrong" : "checks", { sum: digits(row_sum), out: output === null ? "–" : digits(output), dtype, kernel })}
    </p>
  );
}

export function Facts({ attention, head }: { attention: Attention; head: number }) {
  const of = (values: number[] | null) => {
    if (!values) return null;
    return head >= 0 ? values[head] : values.reduce((a, b) => a + b, 0) / values.length;
  };
  const facts: [string, number | null][] = [
    [say("entropy"), of(attention.entropy)],
    [say("distance"), of(attention.distance)],
    [say("sink"), of(attention.sink)],
    [say("importance"), of(attention.importance)],
  ];
  return (
    <dl class="facts">
      {facts.filter(([, value]) => value !== null).map(([name, value]) => (
        <div><dt>{name}</dt><dd>{digits(value!)}</dd></div>
      ))}
    </dl>
  );
}

/** The heat map of the chosen attention and head. */
export function AttentionMap({ onHover }: { onHover?: (cell: Cell | null, shown: Shown) => void }) {
  const { trace } = useLook();
  const attention = chosen(trace);
  const head = attention ? chosenHead(trace, attention) : -1;
  const shown = useShown(attention, head);
  const [, again] = useState(0);
  if (!attention) return null;
  if (shown === undefined) return <p class="note" aria-busy="true">{say("loading")}</p>;
  if (shown === null) return <Note>{say("overview.only")}</Note>;
  const name = `${attentionName(attention)} · ${head < 0 ? say("mean") : `${say("head")} ${head}`}`;
  const q = getNumber("q", -1);
  const k = getNumber("k", -1);
  const held = q >= 0 && q < shown.rows.length && k >= 0 && k < shown.columns.length ? { row: q, column: k } : null;
  const most = Math.max(0, ...shown.hidden);
  return (
    <figure>
      <figcaption>
        <b>{name}</b> <span class="faint">{attention.name} · {shown.rows.length} × {shown.columns.length}</span>
      </figcaption>
      <Heat
        name={name}
        rows={shown.rows}
        columns={shown.columns}
        values={shown.values}
        masked={shown.masked}
        palette={palette()}
        scale={get("scale")}
        held={held}
        onHold={(cell) => {
          set(cell ? { q: cell.row, k: cell.column } : { q: null, k: null });
          again((n) => n + 1);
          onHover?.(cell, shown);
        }}
        onHover={(cell) => onHover?.(cell ?? held, shown)}
      />
      {!specials() && most > 0.005 && <Note>{say("hidden", { most: digits(most) })}</Note>}
      <Facts attention={attention} head={head} />
      <Checks attention={attention} />
      <Numbers name={name} {...matrixTable(shown.rows, shown.columns, shown.values)} />
    </figure>
  );
}
