/** Studies of this repository. */
import { Link } from "wouter";
import { api, got } from "../api/client";
import { useLoaded } from "../api/query";
import { Command, PageHead, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { ago } from "../format";

export default function StudiesPage() {
  const studies = useLoaded("studies", () => got(api.GET("/api/artifacts", { params: { query: { kind: ["study"], limit: 500 } } })), 5000);
  return (
    <>
      <PageHead title="Studies" lede="Experiments in this repository. Each study has a contract that is approved in advance and an append-only ledger." />
      <Ready of={studies}>
        {({ artifacts }) => artifacts.length === 0 ? <Empty title="No studies yet"><p>To start one, run this command in the repository that you want to improve:</p><Command line={'telic study init --task NAME --study NAME --behavior "what should improve"'} /></Empty> : (
          <Panel title={`${artifacts.length} ${artifacts.length === 1 ? "study" : "studies"}`} tight>
            <table className="plain">
              <thead><tr><th>Study</th><th className="number">Last active</th></tr></thead>
              <tbody>{artifacts.map((line) => <tr key={line.id}><td><Link href={`/runs/${encodeURIComponent(line.id)}`}>{line.title}</Link></td><td className="number soft">{ago(line.updated)}</td></tr>)}</tbody>
            </table>
          </Panel>
        )}
      </Ready>
    </>
  );
}
