/** Robots that can be used as an environment. */
import { useState } from "react";
import { useLocation } from "wouter";
import { api, got } from "../api/client";
import { useLoaded } from "../api/query";
import { PageHead, Segmented } from "../components/basics";
import { Ready } from "../components/states";
import { number } from "../format";
import { remember } from "../memory";
import { useUrl } from "../url";

export default function RobotsPage() {
  const robots = useLoaded("robots", () => got(api.GET("/api/robots")));
  const [kind, setKind] = useUrl("kind", "all");
  const [, go] = useLocation();
  return (
    <>
      <PageHead title="Robots" lede="Select a robot to describe a behavior for it. Model files are downloaded on first use." />
      <Ready of={robots}>
        {(list) => {
          const kinds = ["all", ...new Set(list.map((robot) => robot.kind))];
          return (
            <div className="column">
              <div className="scroll-x"><Segmented label="Kind" value={kind} choices={kinds.map((each) => [each, each])} onChange={setKind} /></div>
              <div className="pictures" style={{ gridTemplateColumns: "repeat(auto-fill, minmax(12rem, 1fr))" }}>
                {list.filter((robot) => kind === "all" || robot.kind === kind).map((robot) => <RobotCard key={robot.robot} robot={robot} onChoose={() => { remember("draft.env", robot.robot); go("/"); }} />)}
              </div>
            </div>
          );
        }}
      </Ready>
    </>
  );
}

function RobotCard({ robot, onChoose }: { robot: { robot: string; title: string; kind: string; license: string; mass_kg: number; joints: number; actuators: number; height_m: number | null; model: string | null }; onChoose: () => void }) {
  const [hasPicture, setHasPicture] = useState(true);
  return (
    <button type="button" className="picture" onClick={onChoose}>
      <span className="image">{hasPicture ? <img src={`/api/pictures/${encodeURIComponent(robot.robot)}`} alt="" loading="lazy" onError={() => setHasPicture(false)} /> : robot.model === null ? "not downloaded yet" : "no picture yet"}</span>
      <span className="caption">
        <strong>{robot.title}</strong>
        <small>{robot.robot} · {robot.kind}</small>
        <small>{number(robot.mass_kg)} kg · {robot.joints} joints · {robot.actuators} actuators</small>
        <small>{robot.license}</small>
      </span>
    </button>
  );
}
