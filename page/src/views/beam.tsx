// How the answer was found: the beginnings that the search kept, step by step, and those it let go.
import { useState } from "preact/hooks";
import { useLook } from "../look";
import { About, Note, Numbers } from "../parts";
import { say } from "../say";
import { digits, entry, percent } from "../text";
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
      <About view="beam" />
      {!beam && <Note>{say("beam.none")}</Note>}
      {beam && (
        <>
          <div class="tools">
            <label class="switch"><input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /><span>{say("beam.all")}</span></label>
            <span class="faint">{say("beam.width", { n: beam.num_beams })}</span>
          </div>
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
  const path = new Set<number>();
  for (let i = held; i >= 0; i = nodes[i].parent) path.add(i);
  const node = nodes[held];
  const kept = node ? [...path].reverse().map((i) => entry(trace, nodes[i].token, false)).join(" ") : "";
  return (
    <figure>
      <div class="tree-frame" tabIndex={0} role="region" aria-label={say("view.beam")}>
        <svg class="tree" width={steps * WIDE + 20} height={rows * TALL + 12} role="img" aria-label={say("beam.picture", { n: at.size })}>
          {[...at].map(([i, place]) => {
            const parent = at.get(nodes[i].parent);
            if (!parent) return null;
            const [x1, y1] = [parent.x * WIDE + WIDE - 12, parent.y * TALL + TALL / 2 + 4];
            const [x2, y2] = [place.x * WIDE + 8, place.y * TALL + TALL / 2 + 4];
            return <path class={"branch" + (nodes[i].best || path.has(i) ? " best" : "")} d={`M${x1} ${y1}C${x1 + 14} ${y1} ${x2 - 14} ${y2} ${x2} ${y2}`} />;
          })}
          {[...at].map(([i, place]) => {
            const own = nodes[i];
            const text = entry(trace, own.token, false);
            return (
              <g class={"leaf" + (own.best ? " best" : "") + (own.kept || own.ended ? "" : " pruned") + (path.has(i) ? " held" : "")} onClick={() => props.onHold(i === held ? -1 : i)}>
                <title>{`${text} ${percent(Math.exp(own.log_prob))}`}</title>
                <rect x={place.x * WIDE + 8} y={place.y * TALL + 6} width={WIDE - 20} height={TALL - 6} rx="5" />
                <text x={place.x * WIDE + 15} y={place.y * TALL + TALL / 2 + 4} dominant-baseline="middle">{text.length > 8 ? text.slice(0, 7) + "…" : text}{own.ended ? " ▪" : ""}</text>
                <text class="small" x={place.x * WIDE + WIDE - 17} y={place.y * TALL + TALL / 2 + 4} text-anchor="end" dominant-baseline="middle">{digits(own.total)}</text>
              </g>
            );
          })}
        </svg>
      </div>
      <p class="readout" aria-live="polite"><bdi>{node ? `${kept} · Σ log p ${digits(node.total)}` : say("beam.idle")}</bdi></p>
    </figure>
  );
}
