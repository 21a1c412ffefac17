/** How trackers follow their clips: by encoder, over training, and the clips that they follow worst. */
import { read } from "../api/client";
import type { components } from "../api/schema";
import { useLoaded } from "../api/use";
import { Badge, Figures, Gauge, Panel } from "../components/basics";
import { Chart, type Curve } from "../components/chart";
import { count, number, percent, short, words } from "../format";

type TrackingLine = components["schemas"]["TrackingReport"];
type ThingFile = components["schemas"]["ThingFile"];

export function TrackingPanels({ thing, isLive }: { thing: string; isLive: boolean }) {
  const tracking = useLoaded(`tracking:${thing}`, () => read<TrackingLine[]>(`/api/things/${encodeURIComponent(thing)}/tracking`), isLive ? 5000 : null);
  const measured = tracking.value ?? [];
  if (measured.length === 0) return null;
  const last = measured.at(-1);
  return (
    <>
      <Panel title="How well it follows">
        {last ? <Following line={last} /> : <p className="soft">Measured at the first evaluation.</p>}
      </Panel>
      {measured.length > 1 && <Panel title="While it learned"><Success measured={measured} /></Panel>}
      {last && last.clips.length > 0 && <Worst line={last} />}
      <Films thing={thing} />
    </>
  );
}

function Following({ line }: { line: TrackingLine }) {
  const everyone = [...line.encoders, ...(line.control ? [line.control] : [])];
  return (
    <div className="column">
      <Figures rows={[["clips", count(line.encoders[0]?.clips)], ["of", words(line.split)], ["steps", short(line.step)], ...line.tokens.map((token): [string, string] => [`levels in use, ${words(token.encoder)}`, percent(1 - token.dead_share)])]} />
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Encoders">
        <table className="plain">
          <thead><tr><th>Told by</th><th style={{ width: "9rem" }}>Follows to the end</th><th className="number">Local error, mm</th><th className="number">Joints, rad</th><th className="number">Played</th></tr></thead>
          <tbody>{everyone.map((each) => (
            <tr key={each.encoder}>
              <td>{words(each.encoder)}{each === line.control && <div className="small soft">only holds its pose</div>}</td>
              <td><Gauge value={each.success_rate} low={each.interval?.[0]} tone="live" /><span className="small soft">{percent(each.success_rate)}{each.interval && `, ${percent(each.interval[0])} to ${percent(each.interval[1])}`}</span></td>
              <td className="number">{number(each.mpjpe_l_mm)}</td><td className="number">{number(each.joint_rad)}</td><td className="number">{percent(each.progress_rate)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </div>
  );
}

function Success({ measured }: { measured: TrackingLine[] }) {
  const steps = [...new Set(measured.map((line) => line.step))];
  const names = [...new Set(measured.flatMap((line) => line.encoders.map((each) => each.encoder)))];
  const curves = names.map((name): Curve => ({
    name: words(name),
    values: steps.map((step) => {
      const found = measured.filter((line) => line.step === step).flatMap((line) => line.encoders.filter((each) => each.encoder === name));
      return found.length ? found.reduce((sum, each) => sum + each.success_rate, 0) / found.length : null;
    }),
  }));
  return <Chart x={steps} curves={curves} xLabel="steps" yLabel="share of clips" label="Clips that are followed to the end, over training" height={200} />;
}

function Worst({ line }: { line: TrackingLine }) {
  return (
    <Panel title="Followed worst" tight>
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Clips that are followed worst">
        <table className="plain">
          <thead><tr><th>Clip</th><th>Told by</th><th></th><th className="number">Played</th><th className="number">Local error, mm</th></tr></thead>
          <tbody>{line.clips.map((clip) => <tr key={clip.clip + clip.encoder}><td>{clip.clip}</td><td>{words(clip.encoder)}</td><td><Badge tone={clip.success ? "good" : "bad"}>{clip.success ? "to the end" : "lost it"}</Badge></td><td className="number">{percent(clip.progress)}</td><td className="number">{number(clip.errors.mpjpe_l_mm)}</td></tr>)}</tbody>
        </table>
      </div>
    </Panel>
  );
}

/** Films of the worst clips, with the reference as a ghost; `telic track eval` makes them. */
function Films({ thing }: { thing: string }) {
  const files = useLoaded(`films:${thing}`, () => read<ThingFile[]>(`/api/things/${encodeURIComponent(thing)}/files?kind=video`));
  const films = (files.value ?? []).filter((file) => file.name.includes("/evaluations/"));
  if (films.length === 0) return null;
  return (
    <Panel title="On film, the reference as a ghost">
      <div className="column">{films.slice(-6).map((film) => <figure key={film.key} style={{ margin: 0 }}><video src={film.url} controls muted loop playsInline preload="metadata" aria-label={film.name} /><figcaption className="small soft">{film.name.split("/").at(-1)}</figcaption></figure>)}</div>
    </Panel>
  );
}
