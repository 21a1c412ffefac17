/** Work that was started from here: it goes on by itself; we only wait until it has a name. */
import { api, got, Problem } from "./client";

const PATIENCE_MS = 60_000;

/** Return the thing that a job works on, once it is known. */
export async function untilThing(job: string): Promise<string> {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const now = await got(api.GET("/api/jobs/{job}", { params: { path: { job } } }));
    if (now.thing) return now.thing;
    if (now.state === "failed" || now.state === "interrupted") throw new Problem(now.error ?? "It ended before it began.", now.hint ?? `See: ${now.command}`);
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  throw new Problem("It has not begun after a minute.", "The machine page shows what it prints.");
}
