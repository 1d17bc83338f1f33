// What is in the model: its parts, their shapes, and where its weights and its work are.
import { useLook } from "../look";
import { Fact, Note, Numbers } from "../parts";
import { count, say } from "../say";
import type { Node } from "../trace";

function shapes(node: Node): string {
  const told = node.shapes;
  if (!told) return "";
  const one = (value: unknown): string => (Array.isArray(value) ? (value.every((n) => typeof n === "number") ? value.join("×") : value.map(one).join(", ")) : String(value));
  if (Array.isArray(told) || typeof told === "string") return one(told);
  return Object.entries(told as Record<string, unknown>).map(([name, shape]) => `${name} ${one(shape)}`).join(", ");
}

function Branch({ node, whole, depth }: { node: Node; whole: number; depth: number }) {
  const row = (
    <>
      <span class="part-name"><b>{node.name || "model"}</b> <span class="faint">{node.part} {shapes(node)}</span></span>
      <span class="bar-track" aria-hidden><span class="bar-fill" style={{ width: (100 * node.parameters) / Math.max(1, whole) + "%" }} /></span>
      <span class="bar-value">{count(node.parameters)}</span>
    </>
  );
  if (!node.children.length) return <li class="part">{row}</li>;
  return (
    <li>
      <details open={depth < 2}>
        <summary class="part">{row}</summary>
        <ul>{node.children.map((child) => <Branch node={child} whole={whole} depth={depth + 1} />)}</ul>
      </details>
    </li>
  );
}

function lines(node: Node, path: string): (string | number)[][] {
  const name = path ? `${path}.${node.name}` : node.name;
  const own = [name || "model", node.part, shapes(node), count(node.parameters), node.flops === null ? "–" : count(node.flops)];
  return [own, ...node.children.flatMap((child) => lines(child, path || node.name ? name : ""))];
}

export function Anatomy() {
  const { trace } = useLook();
  const { anatomy, parameters, d_model, dtype, sha256 } = trace.model;
  return (
    <>
      <dl class="facts">
        <Fact name={say("parameters")}>{count(parameters)}</Fact>
        <Fact name="d_model">{d_model}</Fact>
        <Fact name={say("dtype")}>{dtype}</Fact>
        {sha256 && <Fact name="SHA-256"><code>{sha256.slice(0, 12)}…</code></Fact>}
      </dl>
      {anatomy ? (
        <>
          <ul class="anatomy"><Branch node={anatomy} whole={parameters} depth={0} /></ul>
          <Numbers name={say("view.anatomy")} head={["", say("part"), say("shape"), say("parameters"), "FLOPs"]} body={() => lines(anatomy, "")} />
        </>
      ) : (
        <Note>{say("anatomy.none")}</Note>
      )}
    </>
  );
}
