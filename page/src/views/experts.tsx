// Which experts each token was sent to, and how evenly they are used.
import { useBlocks } from "../blocks";
import { Heat } from "../heat";
import { palette, useLook } from "../look";
import { Bars, Choice, matrixTable, Note, Numbers, Tools, Wait } from "../parts";
import { say } from "../say";
import { getNumber, set } from "../state";
import { times, unit, units, type Unit } from "../text";
import type { Router } from "../trace";

export function Experts() {
  const { trace } = useLook();
  if (!trace.experts.length) return <Note>{say("experts.none")}</Note>;
  const index = Math.max(0, Math.min(trace.experts.length - 1, getNumber("router", 0)));
  return (
    <>
      <Tools>
        <Choice label={say("layer")} value={String(index)} options={trace.experts.map((one, i) => [String(i), one.name])} onChange={(router) => set({ router })} />
      </Tools>
      <Shares key={index} router={trace.experts[index]} />
    </>
  );
}

function Shares({ router }: { router: Router }) {
  const { trace, blocks } = useLook();
  const found = useBlocks(blocks, [router.share, router.chosen]);
  if (!found) return <Wait />;
  const [share, picked] = found as Float32Array[];
  const rows = units(trace.sides[router.side], "piece", true);
  const columns: Unit[] = times(router.count, (i) => unit(String(i), [i], `${say("expert")} ${i}`));
  const sent = new Set(Array.from(picked, (expert, i) => `${Math.floor(i / router.active)} ${expert}`));
  const name = say("experts.picture", { n: router.active, of: router.count });
  return (
    <>
      <p class="about-line">{name}</p>
      <Heat name={name} rows={rows} columns={columns} values={share} palette={palette()} verb="→" masked={(row, column) => !sent.has(`${row} ${column}`) && share[row * router.count + column] === 0} />
      <h3>{say("experts.load")}</h3>
      <Bars name={say("experts.load")} items={router.load.map((value, i) => ({ label: `${say("expert")} ${i}`, value }))} />
      <Numbers name={name} {...matrixTable(rows, columns, share)} />
    </>
  );
}
