// Heads switched off: how much each matters, and what the model says without it.
import { useState } from "preact/hooks";
import { chosen, groupOf, palette, useLook } from "../look";
import { colour, scaleOf, textOn } from "../palette";
import { Choice, Note, Numbers, Scroll, Tools } from "../parts";
import { reason, say } from "../say";
import { get, set } from "../state";
import { digits, times } from "../text";
import { theme } from "../theme";
import type { Change } from "../trace";
import { Group } from "./map";

export function Off() {
  const { trace, server } = useLook();
  const [off, setOff] = useState<Record<string, number[]>>({});
  const [done, setDone] = useState<Change[]>([]);
  const [state, setState] = useState("");
  const attention = chosen(trace);
  if (!attention) return <Note>{say("no.attention")}</Note>;
  const group = groupOf(attention);
  const layers = trace.attentions.filter((one) => groupOf(one) === group);
  const most = Math.max(...layers.map((one) => one.heads));
  const known = Float32Array.from(layers.flatMap((one) => one.importance ?? []));
  const scale = scaleOf(palette(), known, "most");
  const now = theme();
  const count = Object.values(off).reduce((sum, heads) => sum + heads.length, 0);
  const turn = (name: string, head: number) => {
    const own = off[name] ?? [];
    setOff({ ...off, [name]: own.includes(head) ? own.filter((one) => one !== head) : [...own, head] });
  };
  const run = async () => {
    if (!server) return;
    const gates = Object.fromEntries(
      Object.entries(off).filter(([, heads]) => heads.length).map(([name, heads]) => [name, Object.fromEntries(heads.map((head) => [head, get("off") ? null : 0]))]),
    );
    setState(say("loading"));
    try {
      const change = await server.change(gates);
      setDone([change, ...done]);
      setState("");
    } catch (error) {
      setState(reason(error));
    }
  };
  const changes = [...done, ...trace.changes];
  return (
    <>
      <Tools>
        <Group group={group} />
        {server && (
          <>
            <Choice label={say("off.how")} value={get("off")} options={[["", say("off.zero")], ["mean", say("off.mean")]]} onChange={(how) => set({ off: how || null })} />
            <button class="main" disabled={!count} onClick={run}>{say("off.run", { n: count })}</button>
            <button disabled={!count} onClick={() => setOff({})}>{say("off.clear")}</button>
          </>
        )}
      </Tools>
      {state && <Note>{state}</Note>}
      {!server && <Note>{say("off.file")}</Note>}
      <Scroll name={say("importance")}>
        <table class="heads-table">
          <caption>{known.length ? say("importance") : say("heads")}</caption>
          <thead><tr><th scope="col">{say("layer")}</th>{times(most, (head) => <th scope="col">{head}</th>)}</tr></thead>
          <tbody>
            {layers.map((one) => (
              <tr>
                <th scope="row">{one.layer}</th>
                {times(one.heads, (head) => {
                  const value = one.importance?.[head] ?? 0;
                  const silent = off[one.name]?.includes(head) ?? false;
                  const style = { background: colour(scale, now, value), color: textOn(scale, now, value) };
                  const text = one.importance ? digits(value) : String(head);
                  return server ? (
                    <td><button class="gate" aria-pressed={silent} aria-label={`${silent ? "✕" : text}: ${say("layer")} ${one.layer}, ${say("head")} ${head}, ${silent ? say("off") : say("on")}`} style={silent ? {} : style} onClick={() => turn(one.name, head)}>{silent ? "✕" : text}</button></td>
                  ) : (
                    <td style={style}>{text}</td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {changes.length > 0 && (
        <>
          <h3>{say("off.done")}</h3>
          <p class="about-line">{say("off.before")} <q><bdi>{trace.hypotheses[0]?.text ?? trace.sides.target?.text ?? trace.classes?.[0]?.label ?? ""}</bdi></q></p>
          <ul class="changes">
            {changes.map((change) => (
              <li>
                <b>{change.name}</b> {change.text !== null && <q><bdi>{change.text}</bdi></q>}{" "}
                {change.difference !== null && <span class={change.difference < -0.5 ? "wrong" : "faint"}>Δ log p {change.difference > 0 ? "+" : ""}{digits(change.difference)}</span>}
              </li>
            ))}
          </ul>
        </>
      )}
      <Numbers
        name={say("off.done")}
        head={["", say("text"), "log p", "Δ"]}
        body={() => changes.map((change) => [change.name, change.text ?? "–", change.log_prob ?? "–", change.difference ?? "–"])}
      />
    </>
  );
}
