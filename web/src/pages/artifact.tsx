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
  const detail = useLoaded(`artifact:${id}`, () => read<Schema<"ArtifactDetail">>(`/api/artifacts/${encodeURIComponent(id)}`), 2500);
  return (
    <Ready of={detail} lines={6} key={id}>
      {(artifact) => (
        <>
          {artifact.damage.length > 0 && <div className="notice bad" style={{ marginBottom: "0.8rem" }}><strong>Some files are damaged.</strong>{artifact.damage.map((each) => <p key={each} className="small">{each}</p>)}</div>}
          {artifact.session && <SessionPage detail={artifact} session={artifact.session} tab={rest} reload={detail.reload} />}
          {artifact.run && <RunPage detail={artifact} run={artifact.run} reload={detail.reload} />}
          {artifact.search && <SearchPage detail={artifact} search={artifact.search} reload={detail.reload} />}
          {artifact.study && <StudyPage detail={artifact} study={artifact.study} />}
        </>
      )}
    </Ready>
  );
}
