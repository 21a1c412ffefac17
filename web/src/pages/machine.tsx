/** This machine: cores, memory, disk, GPUs, jobs started from here, and missing packages. */
import { useState } from "react";
import { Link } from "wouter";
import { api, ask, got, read, type Schema } from "../api/client";
import { refresh, useLoaded } from "../api/query";
import { Badge, Command, Facts, Gauge, PageHead, Panel } from "../components/basics";
import { Empty, Ready } from "../components/states";
import { attempt } from "../components/toast";
import { ago, bytes, number, percent, shortId } from "../format";

type Room = Schema<"CapacityUsage">;
type MachineState = Schema<"MachineState">;

export default function MachinePage() {
  const now = useLoaded("machine", () => read<MachineState>("/api/machine"), 2000);
  const doctor = useLoaded("doctor", () => got(api.GET("/api/doctor")));
  return (
    <>
      <PageHead title="Machine" lede="CPU, memory, disk and GPU usage, background jobs and installation checks." />
      <div className="grid">
        <div className="span-7 stacked">
          <Panel title="Current load"><Ready of={now}>{(machine) => <Now machine={machine} />}</Ready></Panel>
          <Jobs />
        </div>
        <div className="span-5 stacked">
          <Panel title="Doctor" tight>
            <Ready of={doctor}>
              {(checks) => (
                <table className="plain">
                  <thead className="sr"><tr><th>check</th><th>state</th></tr></thead>
                  <tbody>{checks.map((check) => <tr key={check.name}><td style={{ overflowWrap: "anywhere" }}><strong>{check.name}</strong><div className="small soft">{check.message}</div>{check.fix && <Command line={check.fix} />}</td><td><Badge tone={check.state === "ok" ? "good" : check.state === "note" ? "middling" : "bad"}>{check.state}</Badge></td></tr>)}</tbody>
                </table>
              )}
            </Ready>
          </Panel>
          <Panel title="Models"><Ready of={now}>{(machine) => <Facts rows={machine.providers.map((each) => [each.provider, each.has_key ? "API key found" : each.needs_key ? "no API key set" : "no API key required"])} />}</Ready></Panel>
        </div>
      </div>
    </>
  );
}

function Now({ machine }: { machine: MachineState }) {
  const room = (name: string, { total, used }: Room) => (
    <div key={name}><div className="row between small"><span>{name}</span><span className="soft">{bytes(used)} of {bytes(total)}</span></div><Gauge value={total ? used / total : null} tone={used / total > 0.92 ? "bad" : "live"} label={`${name} ${percent(used / total)} used`} /></div>
  );
  return (
    <div className="column">
      <div className="cores" role="img" aria-label={`cores in use: ${machine.cores.map((share) => `${Math.round(share)} percent`).join(", ")}`}>
        {machine.cores.map((share, core) => <div key={core} className={machine.usable.includes(core) ? "core" : "core away"} title={`core ${core}${machine.usable.includes(core) ? "" : ", not available to telic"}`}><i style={{ height: `${share}%` }} /><span>{Math.round(share)}%</span></div>)}
      </div>
      {room("memory", machine.memory)}
      {room("disk (runs folder)", machine.disk)}
      {machine.gpus.map((gpu, index) => <div key={index} className="column">{gpu.memory && room(gpu.name, gpu.memory)}<p className="small soft">{number(gpu.utilization)} % utilization</p></div>)}
      {machine.gpus.length === 0 && <p className="small soft">No GPU found. A GPU is not required.</p>}
      {machine.leases.length > 0 && <details open><summary>Cores in use</summary><ul className="small">{machine.leases.map((lease, index) => <li key={index}><Link href={`/runs/${lease.holder}`}>{shortId(lease.holder)}</Link>, process {lease.pid}{lease.memory_bytes != null && `, ${bytes(lease.memory_bytes)}`}, started {ago(lease.since)}</li>)}</ul></details>}
    </div>
  );
}

function Jobs() {
  const jobs = useLoaded("jobs", () => got(api.GET("/api/jobs")), 2500);
  const [open, setOpen] = useState<string | null>(null);
  const log = useLoaded(open === null ? null : `log:${open}`, () => got(api.GET("/api/jobs/{job}/log", { params: { path: { job: open! } } })), 2000);
  return (
    <Panel title="Jobs started from the dashboard" tight>
      <Ready of={jobs}>
        {(list) => list.length === 0 ? <Empty title="No jobs yet">Jobs started from the dashboard keep running if the server stops.</Empty> : (
          <div className="scroll-x" tabIndex={0} role="group" aria-label="Jobs">
            <table className="plain">
              <thead><tr><th>Command</th><th>State</th><th>Result</th><th className="number">Started</th><th><span className="sr">log</span></th></tr></thead>
              <tbody>
                {list.map((job) => (
                  <tr key={job.job}>
                    <td><code className="small">{job.command}</code>{job.error && <div className="small" style={{ color: "var(--bad)" }}>{job.error}</div>}</td>
                    <td><Badge state={job.state} /></td>
                    <td>{job.target && <Link href={`/runs/${job.target}`}>{shortId(job.target)}</Link>}</td>
                    <td className="number soft">{ago(job.created)}</td>
                    <td className="number">{job.state === "running" && <button type="button" className="small" onClick={() => attempt(() => ask("/api/jobs/{job}/stop", { job: job.job }, {}), () => { refresh("jobs"); return "Saving progress, then stopping."; })}>Stop</button>} <button type="button" className="plain small" aria-pressed={open === job.job} onClick={() => setOpen(open === job.job ? null : job.job)}>Log</button></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Ready>
      {open !== null && <Ready of={log}>{(printed) => <pre className="code" tabIndex={0} aria-label="Output of the job">{printed.log || "No output yet."}</pre>}</Ready>}
    </Panel>
  );
}
