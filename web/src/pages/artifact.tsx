/** The page of a session, run, search or study; the address has one form for all. */
import { lazy } from "react";
import { useParams } from "wouter";
import { read, type Schema } from "../api/client";
import { useLoaded } from "../api/query";
import { Ready } from "../components/states";
import { SessionPage } from "./session";

const RunPage = lazy(() => import("./run"));
const SearchPage = lazy(() => import("./search"));
const StudyPage = lazy(() => import("./study"));

export default function ArtifactPage() {
  const { id, "*": rest = "" } = useParams<{ id: string; "*"?: string }>();
  const detail = useLoaded(`thing:${id}`, () => read<Schema<"ArtifactDetail">>(`/api/artifacts/${encodeURIComponent(id)}`), 2500);
  return (
    <Ready of={detail} lines={6} key={id}>
      {(thing) => (
        <>
          {thing.damage.length > 0 && <div className="notice bad" style={{ marginBottom: "0.8rem" }}><strong>Some files are damaged.</strong>{thing.damage.map((each) => <p key={each} className="small">{each}</p>)}</div>}
          {thing.session && <SessionPage detail={thing} session={thing.session} tab={rest} reload={detail.reload} />}
          {thing.run && <RunPage detail={thing} run={thing.run} reload={detail.reload} />}
          {thing.search && <SearchPage detail={thing} search={thing.search} reload={detail.reload} />}
          {thing.study && <StudyPage detail={thing} study={thing.study} />}
        </>
      )}
    </Ready>
  );
}
