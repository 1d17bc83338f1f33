// One query by hand: every number from the query and the keys to the head's output.
import { useBlocks } from "../blocks";
import { maskOf, scored, useLook } from "../look";
import { colour, scaleOf, type Scale } from "../palette";
import { Choice, Note, Numbers as Table, Scroll, Tools, Wait } from "../parts";
import { say } from "../say";
import { getNumber, set } from "../state";
import { digits, percent, units } from "../text";
import { theme } from "../theme";
import type { Attention, Hand as Numbers } from "../trace";
import { attentionName } from "./map";

export function Strip({ values, scale, name }: { values: Float32Array; scale: Scale; name: string }) {
  const now = theme();
  return (
    <span class="strip" role="img" aria-label={`${name}: ${Array.from(values.subarray(0, 8), digits).join(", ")}${values.length > 8 ? " …" : ""}`}>
      {Array.from(values, (value, i) => <i title={`${i}: ${digits(value)}`} style={{ background: colour(scale, now, value) }} />)}
    </span>
  );
}

/** So many keys of a long text, those with the largest weights. */
const KEYS = 100;

export function Hand() {
  const { trace } = useLook();
  if (!trace.hand.length) return <Note>{say("hand.none")}</Note>;
  const which = Math.min(trace.hand.length - 1, Math.max(0, getNumber("hand", 0)));
  const numbers = trace.hand[which];
  const attention = trace.attentions.find((one) => one.name === numbers.attention)!;
  return <Worked numbers={numbers} attention={attention} which={which} />;
}

function Worked({ numbers, attention, which }: { numbers: Numbers; attention: Attention; which: number }) {
  const { trace, blocks } = useLook();
  const mask = attention.masked && attention.masked !== "causal" ? attention.masked : null;
  const found = useBlocks(blocks, [numbers.q, numbers.k, numbers.v, numbers.bias, numbers.out, mask]);
  const rows = units(trace.sides[attention.rows], "piece", true);
  const columns = units(trace.sides[attention.columns], "piece", true);
  const row = Math.max(0, Math.min(rows.length - 1, getNumber("q", 0)));
  if (!found) return <Wait />;
  const [qs, ks, vs, biases, outs, masks] = found as [Float32Array, Float32Array, Float32Array, Float32Array | null, Float32Array, Float32Array | null];
  const width = qs.length / rows.length;
  const deep = vs.length / columns.length;
  const q = qs.subarray(row * width, (row + 1) * width);
  const bias = biases ? biases.subarray(row * columns.length, (row + 1) * columns.length) : null;
  const allowed = maskOf(attention, masks);
  const barred = (key: number) => allowed?.(row, key) ?? false;
  const { products, weights } = scored(q, ks, numbers.scale, bias, barred);
  const sum = new Float32Array(deep);
  weights.forEach((weight, key) => {
    for (let i = 0; i < deep; i++) sum[i] += weight * vs[key * deep + i];
  });
  const out = outs.subarray(row * deep, (row + 1) * deep);
  const apart = out.reduce((most, value, i) => Math.max(most, Math.abs(value - sum[i])), 0);
  const shade = scaleOf("signed", ks, "");
  const shadeV = scaleOf("signed", vs, "");
  const key = Math.max(0, Math.min(columns.length - 1, getNumber("k", weights.indexOf(Math.max(...weights)))));
  const strong = columns.map((_, i) => i).sort((a, b) => weights[b] - weights[a]).slice(0, KEYS).sort((a, b) => a - b);
  const keyRow = ks.subarray(key * width, (key + 1) * width);
  const order = Array.from(keyRow, (_, i) => i).sort((a, b) => Math.abs(q[b] * keyRow[b]) - Math.abs(q[a] * keyRow[a]));
  return (
    <>
      <Tools>
        <Choice
          label={say("head")}
          value={String(which)}
          options={trace.hand.map((one, i) => {
            const its = trace.attentions.find((other) => other.name === one.attention)!;
            return [String(i), `${attentionName(its)} · ${say("head")} ${one.head}`];
          })}
          onChange={(one) => set({ hand: one, q: null, k: null })}
        />
        <Choice
          label={say("query")}
          value={String(row)}
          options={rows.map((unit, i) => [String(i), `${i} ${unit.label}`])}
          onChange={(one) => set({ q: one, k: null })}
        />
      </Tools>
      <ol class="recipe">
        <li>
          <h3>{say("hand.q", { token: rows[row].label, d: width })}</h3>
          <Strip values={q} scale={scaleOf("signed", qs, "")} name="q" />
        </li>
        <li>
          <h3>{say("hand.scores", { scale: digits(numbers.scale) })}</h3>
          {columns.length > KEYS && <Note>{say("hand.few", { n: KEYS, of: columns.length })}</Note>}
          <Scroll name={say("hand.scores", { scale: digits(numbers.scale) })}>
            <table class="work">
              <thead>
                <tr>
                  <th scope="col">{say("key")}</th><th scope="col">k</th><th scope="col">q·k</th><th scope="col">×{digits(numbers.scale)}</th>
                  {bias && <th scope="col">{say("bias")}</th>}
                  <th scope="col">softmax</th><th scope="col">v</th>
                </tr>
              </thead>
              <tbody>
                {strong.map((i) => (
                  <tr class={(barred(i) ? "masked" : "") + (i === key ? " held" : "")}>
                    <th scope="row"><button class="plain" aria-pressed={i === key} onClick={() => set({ q: row, k: i })}><bdi>{columns[i].label}</bdi></button></th>
                    <td><Strip values={ks.subarray(i * width, (i + 1) * width)} scale={shade} name="k" /></td>
                    <td>{digits(products[i])}</td>
                    <td>{barred(i) ? "−∞" : digits(products[i] * numbers.scale)}</td>
                    {bias && <td>{digits(bias[i])}</td>}
                    <td><span class="share"><span style={{ width: 100 * weights[i] + "%" }} />{percent(weights[i])}</span></td>
                    <td><Strip values={vs.subarray(i * deep, (i + 1) * deep)} scale={shadeV} name="v" /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </li>
        <li>
          <h3>{say("hand.product", { query: rows[row].label, key: columns[key].label })}</h3>
          <p class="formula">
            {order.slice(0, 4).map((i) => `${digits(q[i])} × ${digits(keyRow[i])}`).join(" + ").replace(/\+ −/g, "− ")}
            {order.length > 4 ? ` + … (${say("hand.more", { n: order.length - 4 })})` : ""} = <b>{digits(products[key])}</b>
          </p>
        </li>
        <li>
          <h3>{say("hand.sum")}</h3>
          <Strip values={sum} scale={shadeV} name={say("hand.sum")} />
          <p class={apart > 1e-3 ? "checks wrong" : "checks"}>{apart > 1e-3 ? "⚠ " : "✓ "}{say("hand.check", { apart: digits(apart) })}</p>
        </li>
      </ol>
      <Table
        name={say("view.hand")}
        head={[say("key"), "q·k", "score", "softmax"]}
        body={() => columns.map((column, i) => [column.label, products[i], barred(i) ? "−∞" : products[i] * numbers.scale + (bias?.[i] ?? 0), weights[i]])}
      />
    </>
  );
}
