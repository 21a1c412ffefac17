import { expect, test } from "vitest";
import { answerOf, savedFetch, type Site } from "./answers";

const home = "/api/artifacts/session_1";
const curve = (member: string, name: string) => ({ member, name, steps: [1, 2, 3], values: [1, 2, 3], points: 3 });
const saved: Site = {
  artifact: "session_1", made: "",
  answers: {
    [home]: { id: 1 },
    [`${home}/files`]: [{ kind: "video", iteration: 1 }, { kind: "recording", iteration: 2 }],
    [`${home}/series?iteration=2`]: { series: [curve("a", "sps"), curve("b", "sps"), curve("a", "entropy")], names: ["sps", "entropy"], members: ["a", "b"], last_step: 3 },
  },
  bytes: { [`${home}/playback/k/poses`]: btoa("\u0001\u0002") },
};

test("the requested curves and files are among those that were saved", () => {
  const found = answerOf(saved, `http://site.invalid${home}/series?name=sps&member=b&iteration=2&points=1200`) as { series: { member: string }[] };
  expect(found.series.map((each) => each.member)).toEqual(["b"]);
  expect(answerOf(saved, `${home}/files?kind=recording`)).toHaveLength(1);
  expect(answerOf(saved, `${home}/files?kind=video&iteration=2`)).toHaveLength(0);
});

test("bytes and answers come back as they were, and a missing one is reported", async () => {
  const fetched = savedFetch(saved);
  expect(new Uint8Array(await (await fetched(`${home}/playback/k/poses`)).arrayBuffer())).toEqual(new Uint8Array([1, 2]));
  expect(await (await fetched(`http://site.invalid${home}`)).json()).toEqual({ id: 1 });
  expect((await fetched("/api/machine")).status).toBe(404);
  expect((await fetched(home, { method: "POST" })).status).toBe(404);
});
