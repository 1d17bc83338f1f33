// How the answer was found: the beginnings that the search kept, step by step, and those it let go.
import { useState } from "preact/hooks";
import { useLook } from "../look";
import { Note, Numbers, pressed, Scroll, Tools } from "../parts";
import { say } from "../say";
import { digits, entry, percent, short } from "../text";
import type { BeamNode } from "../trace";

const WIDE = 136;
const TALL = 30;

export function Beam() {
  const { trace } = useLook();
  const [all, setAll] = useState(false);
  const [held, setHeld] = useState(-1);
  const { beam, hypotheses } = trace;
  return (
    <>
      {!beam && <Note>{say("beam.none")}</Note>}
      {beam && (
        <>
          <Tools>
            <label class="switch"><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /><span>{say("beam.all")}</span></label>
            <span class="faint">{say("beam.width", { n: beam.num_beams })}</span>
          </Tools>
          <Tree nodes={beam.nodes} all={all} held={held} onHold={setHeld} />
        </>
      )}
      <h3>{say("beam.found")}</h3>
      <ol class="changes">
        {hypotheses.map((one) => (
          <li><q><bdi>{one.text}</bdi></q> <span class="faint">{say("score")} {digits(one.score)} · log p {digits(one.log_prob)}</span></li>
        ))}
      </ol>
      <Numbers
        name={say("view.beam")}
        head={[say("step"), say("beam.begin"), say("text"), "p", "Σ log p", ""]}
        body={() =>
          (beam?.nodes ?? []).slice(0, 600).map((node) => [
            String(node.step),
            node.parent < 0 ? "–" : String(node.parent),
            entry(trace, node.token),
            percent(Math.exp(node.log_prob)),
            node.total,
            node.best ? say("beam.best") : node.ended ? say("beam.ended") : node.kept ? "" : say("beam.pruned"),
          ])
        }
      />
    </>
  );
}

/** Rows of the tree: children one under another, the first in the row of their parent. */
function placed(nodes: BeamNode[], shown: boolean[]): Map<number, { x: number; y: number }> {
  const children = new Map<number, number[]>();
  nodes.forEach((node, i) => shown[i] && children.set(node.parent, [...(children.get(node.parent) ?? []), i]));
  const found = new Map<number, { x: number; y: number }>();
  let row = 0;
  const walk = (i: number) => {
    const own = (children.get(i) ?? []).sort((a, b) => Number(nodes[b].best) - Number(nodes[a].best) || nodes[b].total - nodes[a].total);
    own.forEach((child, n) => {
      if (n) row++;
      found.set(child, { x: nodes[child].step, y: row });
      walk(child);
    });
  };
  walk(-1);
  return found;
}

function Tree(props: { nodes: BeamNode[]; all: boolean; held: number; onHold: (node: number) => void }) {
  const { trace } = useLook();
  const { nodes, all, held } = props;
  const shown = nodes.map((node) => all || node.kept || node.ended || node.best);
  const at = placed(nodes, shown);
  const steps = Math.max(0, ...Array.from(at.values(), (place) => place.x)) + 1;
  const rows = Math.max(0, ...Array.from(at.values(), (place) => place.y)) + 1;
  const middle = (place: { y: number }) => place.y * TALL + TALL / 2 + 4;
  const path = new Set<number>();
  for (let i = held; i >= 0; i = nodes[i].parent) path.add(i);
  const node = nodes[held];
  const kept = node ? [...path].reverse().map((i) => entry(trace, nodes[i].token, false)).join(" ") : "";
  return (
    <figure>
      <Scroll name={say("view.beam")} kind="tree-frame">
        <svg class="tree" width={steps * WIDE + 20} height={rows * TALL + 12} role="group" aria-label={say("beam.picture", { n: at.size })}>
          {[...at].map(([i, place]) => {
            const parent = at.get(nodes[i].parent);
            if (!parent) return null;
            const [x1, y1] = [parent.x * WIDE + WIDE - 12, middle(parent)];
            const [x2, y2] = [place.x * WIDE + 8, middle(place)];
            return <path class={"branch" + (nodes[i].best || path.has(i) ? " best" : "")} d={`M${x1} ${y1}C${x1 + 14} ${y1} ${x2 - 14} ${y2} ${x2} ${y2}`} />;
          })}
          {[...at].map(([i, place], n) => {
            const own = nodes[i];
            const text = entry(trace, own.token, false);
            return (
              <g class={"leaf" + (own.best ? " best" : "") + (own.kept || own.ended ? "" : " pruned") + (path.has(i) ? " held" : "")} {...pressed(".leaf", n === 0, () => props.onHold(i === held ? -1 : i))}>
                <title>{`${text} ${percent(Math.exp(own.log_prob))}`}</title>
                <rect x={place.x * WIDE + 8} y={place.y * TALL + 6} width={WIDE - 20} height={TALL - 6} rx="5" />
                <text x={place.x * WIDE + 15} y={middle(place)} dominant-baseline="middle">{short(text, 8)}{own.ended ? " ▪" : ""}</text>
                <text class="small" x={place.x * WIDE + WIDE - 17} y={middle(place)} text-anchor="end" dominant-baseline="middle">{digits(own.total)}</text>
              </g>
            );
          })}
        </svg>
      </Scroll>
      <p class="readout" aria-live="polite"><bdi>{node ? `${kept} · Σ log p ${digits(node.total)}` : say("beam.idle")}</bdi></p>
    </figure>
  );
}
