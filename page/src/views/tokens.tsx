// What the model really read and wrote: every token as a box, cut from the text by its characters.
import { part, useLook } from "../look";
import { Note, Numbers } from "../parts";
import { named, say } from "../say";
import { link, set } from "../state";
import { cut, digits, label, percent, visible } from "../text";
import type { Side, Token } from "../trace";
import { Part } from "./map";

/** So many tokens at once. */
const CHIPS = 400;

function Chip(props: { side: Side; token: Token; probability: number | null; onPick?: () => void }) {
  const { side, token, probability } = props;
  const shown = label(side, token);
  const lead = !token.special && /^\s/.test(cut(side, token.start, token.end));
  const inside = (
    <>
      {lead && <span class="faint" aria-hidden>␣</span>}
      <bdi>{shown}</bdi>
      <small>{token.id}</small>
      {probability !== null && (
        <span class="meter" aria-hidden><span style={{ width: 100 * probability + "%" }} /></span>
      )}
    </>
  );
  const about = [
    shown,
    token.bytes && token.part ? `0x${token.bytes}` : "",
    probability === null ? "" : percent(probability),
  ].filter(Boolean).join(" · ");
  const kind = "chip" + (token.special ? " special" : "") + (token.part ? " byte" : "");
  return props.onPick ? (
    <button class={kind} title={about} onClick={props.onPick}>{inside}</button>
  ) : (
    <span class={kind} title={about}>{inside}</span>
  );
}

function Row({ name, side }: { name: string; side: Side }) {
  const { trace } = useLook();
  const own = trace.predictions?.rows === name ? trace.predictions.chosen : null;
  const tags = trace.tags && name === "source" ? trace.tags : null;
  const [from, to] = part("t." + name, side.tokens.length, CHIPS, CHIPS);
  return (
    <section>
      <h3>{named("side.", name)} <span class="faint">{say("tokens.count", { n: side.tokens.length, words: side.words.length })}</span></h3>
      {side.truncated && <Note kind="wrong">{say("truncated")}</Note>}
      <div class="chips" lang="">
        {side.tokens.slice(from, to).map((token, n) => {
          const i = from + n;
          const probability = own?.[i]?.p ?? tags?.[i]?.p ?? null;
          const chip = (
            <Chip
              side={side}
              token={token}
              probability={probability}
              onPick={own ? () => set({ view: "next", q: i }, true) : undefined}
            />
          );
          return tags?.[i] ? <span class="tagged">{chip}<small>{tags[i]!.label}</small></span> : chip;
        })}
      </div>
      {to - from < side.tokens.length && <Part name={"t." + name} label={named("side.", name)} from={from} count={side.tokens.length} each={CHIPS} />}
    </section>
  );
}

export function Tokens() {
  const { trace } = useLook();
  const names = Object.keys(trace.sides).filter((name) => name !== "read" || trace.sides.read.prompt > 0 || !trace.sides.target);
  return (
    <>
      {names.map((name) => <Row name={name} side={trace.sides[name]} />)}
      {trace.classes && <Note><a href={link({ view: "next" })}>{say("view.next")}</a></Note>}
      <Numbers
        name={say("view.tokens")}
        head={["", say("text"), say("piece"), "id", say("characters"), say("bytes"), say("probability")]}
        body={() =>
          names.flatMap((name) =>
            trace.sides[name].tokens.map((token, i) => {
              const own = trace.predictions?.rows === name ? trace.predictions.chosen[i] : null;
              const where = `${token.start}–${token.end}`;
              const shown = label(trace.sides[name], token);
              return [`${named("side.", name)} ${i}`, shown, visible(token.piece), String(token.id), where, token.bytes, own ? digits(own.p) : ""];
            }),
          )
        }
      />
    </>
  );
}
