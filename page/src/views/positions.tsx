// What positions look like: their encoding, how alike any two are, and how far each head looks.
import { useBlocks } from "../blocks";
import { Heat } from "../heat";
import { chosen, useLook } from "../look";
import { Dash, dash, matrixTable, Note, Numbers, Tools, Wait } from "../parts";
import { named, say } from "../say";
import { digits, times, unit, type Unit } from "../text";
import { attentionName, Pickers } from "./map";

const numbered = (count: number, name = ""): Unit[] =>
  times(count, (i) => unit(String(i), [i], name + i));

export function Positions() {
  const { trace, blocks } = useLook();
  const attention = chosen(trace);
  const own = trace.positions;
  const found = useBlocks(blocks, [own?.table ?? null, own?.dots ?? null, attention?.offsets ?? null]);
  if (!found) return <Wait />;
  const [tables, dots, offsets] = found;
  const shape = own?.table ? trace.blocks[own.table].shape : [0, 0];
  const side = own?.dots ? trace.blocks[own.dots].shape[0] : 0;
  const places = numbered(shape[0], say("place") + " ");
  return (
    <>
      <p class="about-line">{own ? named("positions.", own.kind) : say("positions.none")}</p>
      {tables && (
        <>
          <h3>{say("positions.table")}</h3>
          <Heat name={say("positions.table")} rows={places} columns={numbered(shape[1], "d")} values={tables} palette="signed" verb="·" height={360} />
          <Numbers name={say("positions.table")} {...matrixTable(places, numbered(shape[1], "d"), tables)} />
        </>
      )}
      {dots && (
        <>
          <h3>{say("positions.dots")}</h3>
          <Heat name={say("positions.dots")} rows={numbered(side)} columns={numbered(side)} values={dots} palette="signed" verb="·" height={420} />
        </>
      )}
      <h3>{say("positions.offsets")}</h3>
      <Tools><Pickers heads={false} /></Tools>
      {attention && offsets ? (
        <Curves values={offsets} heads={attention.heads} name={attentionName(attention)} />
      ) : (
        <Note>{say("positions.no.offsets")}</Note>
      )}
    </>
  );
}

function Curves({ values, heads, name }: { values: Float32Array; heads: number; name: string }) {
  const whole = values.length / heads;
  const middle = (whole - 1) / 2;
  const reach = values.reduce((far, value, i) => (value > 0 ? Math.max(far, Math.abs((i % whole) - middle)) : far), 1);
  const count = 2 * reach + 1;
  const at = (head: number, i: number) => values[head * whole + middle - reach + i];
  const [wide, tall] = [640, 220];
  const most = Math.max(1e-6, ...values);
  const x = (i: number) => 40 + (i / (count - 1)) * (wide - 56);
  const y = (value: number) => tall - 26 - (value / most) * (tall - 40);
  return (
    <figure>
      <svg class="curves" viewBox={`0 0 ${wide} ${tall}`} role="img" aria-label={`${say("positions.offsets")}: ${name}`}>
        <line x1={x(reach)} x2={x(reach)} y1={8} y2={tall - 26} class="axis" />
        <line x1={40} x2={wide - 16} y1={tall - 26} y2={tall - 26} class="axis" />
        <text x={36} y={14} text-anchor="end">{digits(most)}</text>
        {[-reach, -Math.round(reach / 2), 0, Math.round(reach / 2), reach].map((offset) => (
          <text x={x(offset + reach)} y={tall - 8} text-anchor="middle">{offset > 0 ? "+" : ""}{offset}</text>
        ))}
        {times(heads, (head) => (
          <path
            d={"M" + times(count, (i) => `${x(i).toFixed(1)} ${y(at(head, i)).toFixed(1)}`).join("L")}
            {...dash(head)}
            stroke-width="1.8"
            fill="none"
          />
        ))}
      </svg>
      <figcaption class="head-chips">
        {times(heads, (head) => (
          <span class="head-chip"><Dash head={head} />{head}</span>
        ))}
      </figcaption>
      <Numbers
        name={say("positions.offsets")}
        head={[say("head"), ...times(count, (i) => String(i - reach))]}
        body={() => times(heads, (head) => [String(head), ...times(count, (i) => at(head, i))])}
      />
    </figure>
  );
}
