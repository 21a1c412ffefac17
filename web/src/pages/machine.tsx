/** This machine: what is installed, what runs, what it prints. */
import { useState } from "react";
import { Link } from "wouter";
import { api, got } from "../api/client";
import { useLoaded } from "../api/use";
import { Badge, Command, PageHead, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { ago, shortId } from "../format";

export default function MachinePage() {
  const jobs = useLoaded("jobs", () => got(api.GET("/api/jobs")), 2500);
  const doctor = useLoaded("doctor", () => got(api.GET("/api/doctor")));
  const [open, setOpen] = useState<string | null>(null);
  const log = useLoaded(open === null ? null : `log:${open}`, () => got(api.GET("/api/jobs/{job}/log", { params: { path: { job: open! } } })), 2000);
  return (
    <>
      <PageHead title="Machine" lede="What runs here, and what this installation can do." />
      <div className="grid">
        <div className="span-7 stacked">
          <Panel title="Started from here" tight>
            <Ready of={jobs}>
              {(list) => list.length === 0 ? <Empty title="Nothing was started from the page yet">What you start goes on by itself, also when the server ends.</Empty> : (
                <div className="scroll-x" tabIndex={0} role="group" aria-label="Jobs">
                  <table className="plain">
                    <thead><tr><th>Command</th><th>State</th><th>Works on</th><th className="number">Started</th><th><span className="sr">log</span></th></tr></thead>
                    <tbody>
                      {list.map((job) => (
                        <tr key={job.job}>
                          <td><code className="small">{job.command}</code>{job.error && <div className="small" style={{ color: "var(--bad)" }}>{job.error}</div>}</td>
                          <td><Badge state={job.state} /></td>
                          <td>{job.thing && <Link href={`/things/${job.thing}`}>{shortId(job.thing)}</Link>}</td>
                          <td className="number soft">{ago(job.created)}</td>
                          <td><button type="button" className="plain small" aria-pressed={open === job.job} onClick={() => setOpen(open === job.job ? null : job.job)}>Log</button></td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              )}
            </Ready>
            {open !== null && <Ready of={log}>{(printed) => <pre className="code" tabIndex={0} aria-label="What the job printed">{printed.log || "It has printed nothing yet."}</pre>}</Ready>}
          </Panel>
        </div>
        <div className="span-5 stacked">
          <Panel title="Doctor" tight>
            <Ready of={doctor}>
              {(checks) => (
                <table className="plain">
                  <thead className="sr"><tr><th>check</th><th>state</th></tr></thead>
                  <tbody>{checks.map((check) => <tr key={check.name}><td><strong>{check.name}</strong><div className="small soft">{check.message}</div>{check.fix && <Command line={check.fix} />}</td><td><Badge tone={check.state === "ok" ? "good" : check.state === "note" ? "middling" : "bad"}>{check.state}</Badge></td></tr>)}</tbody>
                </table>
              )}
            </Ready>
          </Panel>
        </div>
      </div>
    </>
  );
}
