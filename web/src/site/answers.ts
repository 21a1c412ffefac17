/** A saved page: responses of the server are stored next to it. */
export interface Site {
  artifact: string;
  made: string;
  /** answers by address */
  answers: Record<string, unknown>;
  /** bytes, as base64 */
  bytes: Record<string, string>;
}

declare global {
  interface Window {
    TELIC_SITE?: Site;
  }
}

export const site: Site | null = typeof window === "undefined" ? null : (window.TELIC_SITE ?? null);
export const SITE_ORIGIN = "http://site.invalid";

interface SeriesAnswer {
  series: { member: string; name: string; steps: number[] }[];
  names: string[];
  members: string[];
}

interface FileLine {
  kind: string;
  iteration?: number | null;
}

/** Answer an address from the saved answers; null: not saved. */
export function answerOf(saved: Site, address: string): unknown {
  const url = new URL(address, SITE_ORIGIN);
  const exact = saved.answers[url.pathname + url.search];
  if (exact !== undefined) return exact;
  const iteration = url.searchParams.get("iteration");
  if (url.pathname.endsWith("/series")) {
    const all = (saved.answers[`${url.pathname}?iteration=${iteration}`] ?? saved.answers[url.pathname]) as SeriesAnswer | undefined;
    return all ? someSeries(all, url.searchParams) : null;
  }
  if (url.pathname.endsWith("/files")) {
    const kinds = url.searchParams.getAll("kind");
    const all = (saved.answers[url.pathname] ?? []) as FileLine[];
    return all.filter((file) => (kinds.length === 0 || kinds.includes(file.kind)) && (iteration === null || file.iteration === Number(iteration)));
  }
  return saved.answers[url.pathname] ?? null;
}

/** The requested curves of those that were saved. */
function someSeries(all: SeriesAnswer, asked: URLSearchParams): SeriesAnswer {
  const [names, members] = [asked.getAll("name"), asked.getAll("member")];
  const [start, end] = [Number(asked.get("start") ?? -Infinity), Number(asked.get("end") ?? Infinity)];
  const series = all.series.filter((each) => names.includes(each.name) && (members.length === 0 || members.includes(each.member)) && each.steps.some((step) => step >= start && step <= end));
  return { ...all, series };
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Return a replacement of the browser's fetch. */
export function savedFetch(saved: Site): typeof fetch {
  return async (input, init) => {
    const address = typeof input === "string" ? input : input instanceof URL ? input.href : input.url;
    const method = init?.method ?? (input instanceof Request ? input.method : "GET");
    const url = new URL(address, SITE_ORIGIN);
    const bytes = saved.bytes[url.pathname + url.search] ?? saved.bytes[url.pathname];
    if (bytes !== undefined) return new Response(bytesOf(bytes));
    const found = method === "GET" ? answerOf(saved, address) : null;
    if (found !== null) return new Response(JSON.stringify(found), { headers: { "content-type": "application/json" } });
    const missing = { message: "This data is not part of the saved page.", hint: "Open the session in the dashboard: telic serve." };
    return new Response(JSON.stringify(missing), { status: 404, headers: { "content-type": "application/json" } });
  };
}
