/** Work that was started from a page, in its own process. */
import { api, got, Problem } from "./client";

const PATIENCE_MS = 60_000;

/** Wait for a job: until its artifact is known, or until it has ended. */
export async function waitForJob(job: string, until: "artifact" | "end" = "artifact", patience = PATIENCE_MS): Promise<string> {
  const end = Date.now() + patience;
  while (Date.now() < end) {
    const now = await got(api.GET("/api/jobs/{job}", { params: { path: { job } } }));
    if (now.state === "failed" || now.state === "interrupted") throw new Problem(now.error ?? "The process exited before doing any work.", now.hint ?? `See: ${now.command}`);
    if (now.state === "done" || (until === "artifact" && now.artifact)) return now.artifact ?? "";
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  throw new Problem("The job is taking too long to start.", "See its output on the Machine page.");
}
