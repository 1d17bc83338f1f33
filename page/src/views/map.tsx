// One attention as a heat map, with the pickers that choose it.
import { useMemo } from "preact/hooks";
import { useBlocks } from "../blocks";
import { Heat } from "../heat";
import { chosen, chosenHead, groupOf, groups, keptHeads, palette, PART, specials, useLook, useShown, wordy, type Shown } from "../look";
import { PALETTES } from "../palette";
import { Choice, Fact, matrixTable, Note, Numbers, Switch, Tools, Wait } from "../parts";
import { count as number, named, say } from "../say";
import { get, getNumber, set } from "../state";
import { digits, times, unit } from "../text";
import { TOLERANCE, type Attention } from "../trace";

/** What an attention is called on the page. */
export const attentionName = (attention: Attention) => `${named("group.", groupOf(attention))} · ${say("layer")} ${attention.layer}`;

/** Which kind of attention. */
export function Group({ group }: { group: string }) {
  const { trace } = useLook();
  return (
    <Choice
      label={say("attention")}
      value={group}
      options={groups(trace).map((one) => [one, named("group.", one)])}
      onChange={(kind) => set({ kind, layer: null, head: "mean", q: null })}
    />
  );
}

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
      <Group group={group} />
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
            ...keptHeads(attention).map((h): [string, string] => [h, h + mark(Number(h))]),
          ]}
          onChange={(one) => set({ kind: group, layer: attention.layer, head: one })}
        />
      )}
    </>
  );
}

export function Looks({ scale = true }: { scale?: boolean }) {
  const { sides } = useLook().trace;
  return (
    <>
      <Switch label={say("words")} on={wordy()} onChange={(on) => set({ unit: on ? "word" : null, q: null })} />
      <Switch label={say("specials")} on={specials()} onChange={(on) => set({ spec: on ? null : "0", q: null })} />
      {scale && !specials() && <Switch label={say("norm")} on={get("norm") !== ""} onChange={(on) => set({ norm: on ? 1 : null })} />}
      {scale && sides.read && sides.target && (
        <Choice label={say("rows")} value={get("rows")} options={[["", say("rows.written")], ["read", say("rows.read")]]} onChange={(one) => set({ rows: one || null })} />
      )}
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
        <Fact name={name}>{digits(value!)}</Fact>
      ))}
    </dl>
  );
}

/** Which part of a long list is shown, and the ways to the next. name: where the address keeps the first; each: how many at
 * once. */
export function Part(props: { name: string; label: string; from: number; count: number; each?: number }) {
  const { name, from, count, each = PART } = props;
  const to = Math.min(count, from + each);
  const move = (step: number) => set({ [name]: Math.max(0, Math.min(count - each, from + step * each)) });
  return (
    <span class="buttons" role="group" aria-label={props.label}>
      <button disabled={from === 0} onClick={() => move(-1)} aria-label={`${props.label} −${each}`}>‹</button>
      <span class="faint">{say("shown", { name: props.label, from: number(from), to: number(to - 1), of: number(count) })}</span>
      <button disabled={to === count} onClick={() => move(1)} aria-label={`${props.label} +${each}`}>›</button>
    </span>
  );
}

/** Which part of a matrix is shown, where not all of it is. */
export function Parts({ shown }: { shown: Shown }) {
  const { rows, columns, from, of } = shown;
  return (
    <Tools>
      {rows.length < of[0] && <Part name="r" label={say("rows")} from={from[0]} count={of[0]} each={rows.length} />}
      {columns.length < of[1] && <Part name="c" label={say("columns")} from={from[1]} count={of[1]} each={columns.length} />}
    </Tools>
  );
}

/** A long text's whole matrix in small: the largest weight of each cell. A cell that is held brings its part into view. */
function Far({ attention, head, shown }: { attention: Attention; head: number; shown: Shown | null | undefined }) {
  const { blocks } = useLook();
  const { size, max } = attention.overview!;
  const [tall, wide] = attention.size.map((count, i) => (Math.ceil(count / 64) * (shown ? shown.of[i] : count)) / count); // units a cell
  const found = useBlocks(blocks, [max]);
  const cells = size[0] * size[1];
  const made = useMemo(() => {
    const cell = (count: number) => (i: number) => {
      const each = Math.ceil(count / 64);
      return unit(`${i * each}–${Math.min(count, (i + 1) * each) - 1}`, [i]);
    };
    const all = found?.[0];
    const values = all && Float32Array.from({ length: cells }, (_, i) => {
      if (head >= 0) return all[head * cells + i];
      let most = 0;
      for (let h = 0; h < attention.heads; h++) most = Math.max(most, all[h * cells + i]);
      return most;
    });
    return { rows: times(size[0], cell(attention.size[0])), columns: times(size[1], cell(attention.size[1])), values };
  }, [attention, head, !found]);
  if (!made.values) return null;
  return (
    <>
      <h3>{say("far")}</h3>
      <Heat
        name={say("far")}
        rows={made.rows}
        columns={made.columns}
        values={made.values}
        palette={palette()}
        scale="most"
        height={340}
        held={shown ? { row: Math.floor(shown.from[0] / tall), column: Math.floor(shown.from[1] / wide) } : null}
        onHold={(cell) => cell && set({ r: Math.round(cell.row * tall), c: Math.round(cell.column * wide), q: null, k: null })}
      />
    </>
  );
}

/** The heat map of the chosen attention and head. */
export function AttentionMap() {
  const { trace } = useLook();
  const attention = chosen(trace);
  const head = attention ? chosenHead(trace, attention) : -1;
  const shown = useShown(attention, head);
  if (!attention) return null;
  const far = attention.overview && Math.max(...attention.size) > 512 && <Far attention={attention} head={head} shown={shown} />;
  if (shown === undefined) return <Wait />;
  if (shown === null) return <>{far}<Note>{say("overview.only")}</Note></>;
  const name = `${attentionName(attention)} · ${head < 0 ? say("mean") : `${say("head")} ${head}`}`;
  const [r, c] = shown.from;
  const [q, k] = [getNumber("q", -1) - r, getNumber("k", -1) - c];
  const held = q >= 0 && q < shown.rows.length && k >= 0 && k < shown.columns.length ? { row: q, column: k } : null;
  const most = Math.max(0, ...shown.hidden);
  const rows = specials() ? shown.rows : shown.rows.map((row, i) => ({ ...row, title: `${row.title} (${say("hidden.row", { share: digits(shown.hidden[i]) })})` }));
  return (
    <figure>
      {far}
      <figcaption>
        <b>{name}</b> <span class="faint">{attention.name} · {attention.size.join(" × ")}</span>
      </figcaption>
      <Parts shown={shown} />
      <Heat
        name={name}
        rows={rows}
        columns={shown.columns}
        values={shown.values}
        masked={shown.masked}
        palette={palette()}
        scale={get("scale")}
        note={!specials() && get("norm") ? say("norm") : ""}
        outlined
        held={held}
        onHold={(cell) => set(cell ? { q: cell.row + r, k: cell.column + c } : { q: null, k: null })}
      />
      {!specials() && most > 0.005 && <Note>{say(get("norm") ? "hidden.norm" : "hidden", { most: digits(most) })}</Note>}
      <Facts attention={attention} head={head} />
      <Checks attention={attention} />
      <Numbers name={name} {...matrixTable(rows, shown.columns, shown.values)} />
    </figure>
  );
}
