/** What people leave with: the report, the exported policy, a link that shows one thing and changes nothing. */
import { useState } from "react";
import { ask, read } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Command, Copy, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt, Dialog, say } from "../components/toast";
import { bytes } from "../format";

type ThingFile = components["schemas"]["ThingFile"];
interface ShareLine { id: string; thing: string; made: string; note: string }

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
            <Panel title="Take it with you" actions={!isReadOnly && <><button type="button" onClick={write}>Write the report anew</button><button type="button" onClick={exported}>Export the policy</button></>}>
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

export function ShareDialog({ thing, onClose }: { thing: string; onClose: () => void }) {
  const shares = useLoaded(`shares:${thing}`, () => read<ShareLine[]>("/api/shares"));
  const [note, setNote] = useState("");
  const [link, setLink] = useState<string | null>(null);
  const make = async () => {
    await attempt(() => ask("/api/things/{thing}/share", { thing }, { note }), (made) => {
      setLink(`${window.location.origin}${made.path}`);
      shares.reload();
    });
    return false;
  };
  const withdraw = (share: string) => attempt(() => ask("/api/shares/{share}/withdraw", { share }, {} as never), () => { shares.reload(); return "The link shows nothing any more."; });
  const mine = (shares.value ?? []).filter((share) => share.thing === thing);
  return (
    <Dialog title="Share, read-only" submit="Make a link" onClose={onClose} onSubmit={make}>
      <p>Whoever opens the link sees this session and nothing else, and can change nothing. It reaches as far as the server does: this machine, or whoever forwards its port.</p>
      <label className="field">For whom? (may be left out)<input value={note} maxLength={200} onChange={(event) => setNote(event.target.value)} /></label>
      {link && <div className="command"><code tabIndex={0} aria-label="share link">{link}</code><Copy text={link} /></div>}
      {mine.length > 0 && <ul className="column" aria-label="Links of this session">{mine.map((share) => <li key={share.id} className="row between"><span>{share.note || "without a note"} <span className="soft small">{share.made.slice(0, 16).replace("T", " ")}</span></span><button type="button" onClick={() => { void withdraw(share.id); say("Withdrawing…", ""); }}>Withdraw</button></li>)}</ul>}
    </Dialog>
  );
}
