/** Results to take along: the report and the exported policy. */
import { ask, read } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Command, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { bytes } from "../format";

type ThingFile = components["schemas"]["ThingFile"];

export function ReportPanel({ thing, isReadOnly }: { thing: string; isReadOnly: boolean }) {
  const files = useLoaded(`leave:${thing}`, () => read<ThingFile[]>(`/api/things/${encodeURIComponent(thing)}/files?kind=report&kind=policy&kind=code`));
  const write = () => attempt(() => ask("/api/things/{thing}/report", { thing }, {}), () => { files.reload(); return "The report is written."; });
  const exported = () => attempt(() => ask("/api/things/{thing}/export", { thing }, {}), (job) => { setTimeout(files.reload, 8000); return `Exporting: ${job.command}`; });
  return (
    <Ready of={files}>
      {(all) => {
        const page = all.find((file) => file.name === "report.html");
        const policies = all.filter((file) => file.name.startsWith("export/"));
        return (
          <div className="stacked">
            <Panel title="Take it with you" actions={!isReadOnly && <><button type="button" onClick={write}>Write the report again</button><button type="button" onClick={exported}>Export the policy</button></>}>
              <div className="column">
                {policies.length > 0 ? <ul className="column" style={{ gap: "0.2rem" }}>{policies.map((file) => <li key={file.key}><a href={file.url} download={file.name.split("/").at(-1)}>{file.name.split("/").at(-1)}</a> <span className="small soft">{bytes(file.bytes)}</span></li>)}</ul> : <p className="soft small">ONNX and TorchScript with the normaliser inside, checked to 1e-5, and a card.</p>}
                <Command line={`telic export ${thing}`} />
              </div>
            </Panel>
            {page ? <iframe className="panel" src={page.url} title="Report of the session" style={{ width: "100%", height: "min(60rem, 80vh)" }} sandbox="allow-scripts" /> : <Empty title="There is no report yet">It is written when a session ends or is stopped.</Empty>}
          </div>
        );
      }}
    </Ready>
  );
}
