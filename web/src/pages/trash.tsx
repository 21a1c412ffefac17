/** Deleted sessions, runs and searches, which can be restored. */
import { api, ask, got } from "../api/client";
import { useLoaded } from "../api/query";
import { Badge, PageHead, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, envName, shortId } from "../format";

export default function TrashPage() {
  const trash = useLoaded("trash", () => got(api.GET("/api/trash")), 5000);
  const restore = (deleted: string) => attempt(() => ask("/api/trash/{deleted}/restore", { deleted }, {}), () => {
    trash.reload();
    return "Restored.";
  });
  return (
    <>
      <PageHead title="Trash" lede="Deleted sessions, runs and searches. To remove them permanently, empty runs/.trash." />
      <Ready of={trash}>
        {(lines) => lines.length === 0 ? <Empty title="The trash is empty">Deleted sessions, runs and searches appear here and can be restored.</Empty> : (
          <Panel title={`${lines.length} deleted`} tight>
            <div className="scroll-x" tabIndex={0} role="group" aria-label="Deleted items">
              <table className="plain">
                <thead><tr><th>Name</th><th>Kind</th><th>Environment</th><th>State</th><th>Last active</th><th><span className="sr">Restore</span></th></tr></thead>
                <tbody>
                  {lines.map((line) => (
                    <tr key={line.id}>
                      <td>{line.title} <code className="small soft">{shortId(line.id)}</code></td>
                      <td className="soft">{line.kind}</td>
                      <td>{envName(line.env)}</td>
                      <td><Badge state={line.state} limits={line.limits} /></td>
                      <td className="soft">{ago(line.updated)}</td>
                      <td className="number"><button type="button" onClick={() => restore(line.id)} aria-label={`Restore ${line.title} ${shortId(line.id)}`}>Restore</button></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Panel>
        )}
      </Ready>
    </>
  );
}
