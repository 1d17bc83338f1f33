// Two of anything with the same rows and columns: heads, layers, or the same text in another model; and their difference.
import { useMemo, useState } from "preact/hooks";
import { Blocks } from "../blocks";
import { Heat } from "../heat";
import { keptHeads, Looking, palette, useLook, useShown, type Looked, type Shown } from "../look";
import { Choice, matrixTable, Note, Numbers, Tools } from "../parts";
import { named, reason, say } from "../say";
import { get, getNumber, set } from "../state";
import { digits } from "../text";
import type { Attention, Trace } from "../trace";
import { parse } from "../open";
import { attentionName, Looks, Parts } from "./map";

function useSide(prefix: string): { picker: preact.JSX.Element; side: Shown | null | undefined; name: string } {
  const { trace } = useLook();
  const usual = trace.attentions.findIndex((one) => one.name === trace.alignment?.attention);
  const index = Math.max(0, Math.min(trace.attentions.length - 1, getNumber(prefix, Math.max(0, usual))));
  const attention: Attention | undefined = trace.attentions[index];
  const head = getNumber(prefix + "h", -1);
  const side = useShown(attention ?? null, head);
  const picker = (
    <>
      <Choice label={say("attention")} value={String(index)} options={trace.attentions.map((one, i) => [String(i), attentionName(one)])} onChange={(one) => set({ [prefix]: one, [prefix + "h"]: null })} />
      <Choice label={say("head")} value={String(head)} options={[["-1", say("mean")], ...(attention ? keptHeads(attention) : []).map((h): [string, string] => [h, h])]} onChange={(one) => set({ [prefix + "h"]: one })} />
    </>
  );
  return { picker, side, name: attention ? `${attentionName(attention)} · ${head < 0 ? say("mean") : head}` : "" };
}

export function Compare() {
  const own = useLook();
  const [other, setOther] = useState<Looked | null>(null);
  const [wrong, setWrong] = useState("");
  const open = async (input: HTMLInputElement) => {
    const file = input.files?.[0];
    if (!file) return;
    try {
      const trace = await parse(await file.text());
      setOther({ trace, blocks: new Blocks(trace), server: null });
      setWrong("");
    } catch (error) {
      setWrong(reason(error));
    }
    input.value = ""; // so that the same file can be chosen again
  };
  if (!own.trace.attentions.length) return <Note>{say("no.attention")}</Note>;
  return (
    <>
      <Tools>
        <label class="field"><span>{say("compare.open")}</span><input type="file" accept=".json,.html" onChange={(event) => open(event.currentTarget)} /></label>
        {other && <button onClick={() => setOther(null)}>{say("compare.close")}</button>}
        <Looks />
      </Tools>
      {wrong && <Note kind="wrong">{wrong}</Note>}
      <Both other={other ?? own} />
    </>
  );
}

function Both({ other }: { other: Looked }) {
  const left = useSide("a");
  const { trace } = useLook();
  return (
    <div class="two">
      <Half name="A" made={left} about={trace} />
      <Looking.Provider value={other}><Right left={left.side} /></Looking.Provider>
    </div>
  );
}

function Half({ name, made, about }: { name: string; made: ReturnType<typeof useSide>; about: Trace }) {
  return (
    <section>
      <h3>{name} <span class="faint">{about.model.name} · {named("task.", about.task)}</span></h3>
      <Tools>{made.picker}</Tools>
      {made.side ? (
        <>
          <Parts shown={made.side} />
          <Heat name={`${name} ${made.name}`} rows={made.side.rows} columns={made.side.columns} values={made.side.values} palette={palette()} scale={get("scale")} height={420} />
        </>
      ) : (
        <Note>{made.side === undefined ? say("loading") : say("overview.only")}</Note>
      )}
    </section>
  );
}

function Right({ left }: { left: Shown | null | undefined }) {
  const right = useSide("b");
  const { trace } = useLook();
  const same = left && right.side && left.rows.length === right.side.rows.length && left.columns.length === right.side.columns.length;
  const difference = useMemo(() => {
    if (!same) return null;
    return left.values.map((value, i) => right.side!.values[i] - value);
  }, [left, right.side]);
  const most = difference ? difference.reduce((a, b) => Math.max(a, Math.abs(b)), 0) : 0;
  return (
    <>
      <Half name="B" made={right} about={trace} />
      <section class="wide">
        <h3>{say("compare.difference")}</h3>
        {difference && left ? (
          <>
            <p class="about-line">{say("compare.most", { most: digits(most) })}</p>
            <Heat name={say("compare.difference")} rows={left.rows} columns={left.columns} values={difference} palette="signed" verb="·" />
            <Numbers name={say("compare.difference")} {...matrixTable(left.rows, left.columns, difference)} />
          </>
        ) : (
          <Note>{say("compare.unequal")}</Note>
        )}
      </section>
    </>
  );
}
