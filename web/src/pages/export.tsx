/** The report and the exported policy, to view and download. */
import { useState } from "react";
import { ask, read, type Schema } from "../api/client";
import { waitForJob } from "../api/jobs";
import { useLoaded } from "../api/query";
import { Command, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { bytes } from "../format";

type ArtifactFile = Schema<"ArtifactFile">;
const PATIENCE_MS = 10 * 60_000;

export function ReportPanel({ artifact, isReadOnly }: { artifact: string; isReadOnly: boolean }) {
  const files = useLoaded(`export:${artifact}`, () => read<ArtifactFile[]>(`/api/artifacts/${encodeURIComponent(artifact)}/files?kind=report&kind=policy&kind=code`));
  const [isExporting, setExporting] = useState(false);
  const write = () => attempt(() => ask("/api/artifacts/{artifact}/report", { artifact }, {}), () => { files.reload(); return "The report was regenerated."; });
  const start = async () => {
    setExporting(true);
    await attempt(async () => waitForJob((await ask("/api/artifacts/{artifact}/export", { artifact }, {})).job, "end", PATIENCE_MS), () => "The policy was exported.");
    setExporting(false);
    files.reload();
  };
  return (
    <Ready of={files}>
      {(all) => {
        const page = all.find((file) => file.name === "report.html");
        const exported = all.filter((file) => file.name.startsWith("export/"));
        return (
          <div className="stacked">
            <Panel title="Export" actions={!isReadOnly && <><button type="button" onClick={write}>Regenerate the report</button><button type="button" onClick={start} disabled={isExporting}>{isExporting ? "Exporting…" : exported.length ? "Export again" : "Export the policy"}</button>{exported.length > 0 && <a className="button primary" href={`/api/artifacts/${encodeURIComponent(artifact)}/bundle`} download>Download all (ZIP)</a>}</>}>
              <div className="column">
                {exported.length > 0 ? <ul className="column" style={{ gap: "0.2rem" }}>{exported.map((file) => <li key={file.key}><a href={file.url} download={file.name.split("/").at(-1)}>{file.name.split("/").at(-1)}</a> <span className="small soft">{bytes(file.bytes)}</span></li>)}</ul> : <p className="soft small">An export contains the policy in ONNX and NumPy format, including observation normalization, and a model card. The outputs are checked against the original network (tolerance 1e-5).</p>}
                <Command line={`telic export ${artifact}`} />
              </div>
            </Panel>
            {page ? <iframe className="panel" src={page.url} title="Report of the session" style={{ width: "100%", height: "min(60rem, 80vh)" }} sandbox="allow-scripts" /> : <Empty title="No report yet">The report is written when the session ends or is stopped.</Empty>}
          </div>
        );
      }}
    </Ready>
  );
}
