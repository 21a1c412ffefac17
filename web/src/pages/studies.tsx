/** Studies of this repository. */
import { Link } from "wouter";
import { api, got } from "../api/client";
import { useLoaded } from "../api/use";
import { Command, PageHead, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { ago } from "../format";

export default function StudiesPage() {
  const studies = useLoaded("studies", () => got(api.GET("/api/things", { params: { query: { kind: ["study"], limit: 500 } } })), 5000);
  return (
    <>
      <PageHead title="Studies" lede="Experiments in this repository: what may be tried is agreed first, what was tried is kept in a ledger that cannot be rewritten." />
      <Ready of={studies}>
        {({ things }) => things.length === 0 ? <Empty title="There is no study here yet"><p>Begin one in the repository that you want to improve:</p><Command line={'telic study init --task NAME --study NAME --says "what should become better"'} /></Empty> : (
          <Panel title={`${things.length} ${things.length === 1 ? "study" : "studies"}`} tight>
            <table className="plain">
              <thead><tr><th>Study</th><th className="number">Last active</th></tr></thead>
              <tbody>{things.map((line) => <tr key={line.id}><td><Link href={`/things/${encodeURIComponent(line.id)}`}>{line.title}</Link></td><td className="number soft">{ago(line.updated)}</td></tr>)}</tbody>
            </table>
          </Panel>
        )}
      </Ready>
    </>
  );
}
