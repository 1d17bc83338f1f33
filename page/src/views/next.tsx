// What else could have been said at each place, and when, layer by layer, the model made up its mind.
import { part, useLook } from "../look";
import { colour, textOn, type Scale } from "../palette";
import { Bars, Choice, Fact, Note, Numbers, Scroll, Tools } from "../parts";
import { say } from "../say";
import { getNumber, set } from "../state";
import { digits, entry, label, percent } from "../text";
import { theme } from "../theme";
import type { Lens } from "../trace";
import { Part } from "./map";

const SHARE: Scale = { palette: "ink", low: 0, high: 1, log: false };

export function Next() {
  const { trace } = useLook();
  const { predictions, classes } = trace;
  if (classes) {
    return (
      <>
        <Bars name={say("classes")} most={1} items={classes.map((one, i) => ({ label: one.label, value: one.p, mark: i === 0 }))} />
        <Numbers name={say("classes")} head={[say("class"), say("probability")]} body={() => classes.map((one) => [one.label, one.p])} />
      </>
    );
  }
  if (!predictions) return <Note>{say("next.none")}</Note>;
  const side = trace.sides[predictions.rows];
  const places = side.tokens.map((_, i) => i).filter((i) => predictions.top[i]?.length);
  const row = places.includes(getNumber("q", -1)) ? getNumber("q", -1) : (places[0] ?? 0);
  const [from, to] = part("t", places.length, 400, 400);
  const own = predictions.chosen[row];
  const top = predictions.top[row] ?? [];
  const inside = own && top.some((one) => one.id === own.id);
  return (
    <>
      <div class="chips" role="group" aria-label={say("place")}>
        {places.slice(from, to).map((i) => (
          <button class={"chip" + (side.tokens[i].special ? " special" : "")} aria-pressed={i === row} onClick={() => set({ q: i })}>
            <bdi>{label(side, side.tokens[i])}</bdi>
            <span class="meter" aria-hidden><span style={{ width: 100 * (predictions.chosen[i]?.p ?? 0) + "%" }} /></span>
          </button>
        ))}
      </div>
      <Tools>
        {to - from < places.length && <Part name="t" label={say("place")} from={from} count={places.length} each={400} />}
        <Choice label={say("place")} value={String(row)} options={places.map((i) => [String(i), `${i} ${label(side, side.tokens[i])}`])} onChange={(i) => set({ q: i })} />
      </Tools>
      <Bars
        name={say("next.bars", { place: row })}
        most={1}
        items={[
          ...top.map((one) => ({ label: entry(trace, one.id), value: one.p, mark: one.id === own?.id })),
          ...(own && !inside ? [{ label: entry(trace, own.id), value: own.p, mark: true, note: `${percent(own.p)} · ${say("rank", { n: own.rank })}` }] : []),
        ]}
      />
      <dl class="facts">
        {own && <Fact name={say("chosen")}><bdi>{entry(trace, own.id)}</bdi></Fact>}
        {own && <Fact name={say("rank.of")}>{own.rank}</Fact>}
        {own && <Fact name="log p">{digits(own.log_prob)}</Fact>}
        <Fact name={say("entropy")}>{digits(predictions.entropy[row] ?? 0)}</Fact>
      </dl>
      <Numbers
        name={say("view.next")}
        head={["", say("chosen"), say("probability"), say("rank.of"), say("entropy"), say("others")]}
        body={() =>
          places.map((i) => {
            const its = predictions.chosen[i];
            const others = predictions.top[i].slice(0, 4).map((one) => `${entry(trace, one.id)} ${digits(one.p)}`).join(" · ");
            return [String(i), its ? entry(trace, its.id) : "–", its ? its.p : "–", its ? String(its.rank) : "–", predictions.entropy[i], others];
          })
        }
      />
      <h3>{say("lens")}</h3>
      {trace.lens ? <LensTable lens={trace.lens} row={row} /> : <Note>{say("lens.none")}</Note>}
    </>
  );
}

function LensTable({ lens, row }: { lens: Lens; row: number }) {
  const { trace } = useLook();
  const side = trace.sides[lens.rows];
  const now = theme();
  const from = Math.max(0, Math.min(row - 12, side.tokens.length - 25));
  const shown = side.tokens.map((_, i) => i).slice(from, from + 25);
  return (
    <>
      <p class="about-line">{say("lens.about", { apart: digits(lens.checked) })}</p>
      {shown.length < side.tokens.length && <p class="faint">{say("shown", { name: say("place"), from, to: from + shown.length - 1, of: side.tokens.length })}</p>}
      <Scroll name={say("lens")}>
        <table class="lens">
          <thead>
            <tr><th scope="col">{say("layer")}</th>{shown.map((i) => <th scope="col" class={i === row ? "held" : ""}><bdi>{label(side, side.tokens[i])}</bdi></th>)}</tr>
          </thead>
          <tbody>
            {lens.layers.map((_, back) => {
              const layer = lens.layers.length - 1 - back;
              return (
                <tr>
                  <th scope="row">{lens.layers[layer]}</th>
                  {shown.map((i) => {
                    const best = lens.top[layer][i]?.[0];
                    if (!best) return <td>–</td>;
                    const right = best.id === trace.predictions?.chosen[i]?.id;
                    return (
                      <td
                        class={right ? "right" : ""}
                        title={`${percent(best.p)}`}
                        style={{ background: colour(SHARE, now, best.p), color: textOn(SHARE, now, best.p) }}
                      >
                        <bdi>{entry(trace, best.id, false)}</bdi>
                      </td>
                    );
                  })}
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}
