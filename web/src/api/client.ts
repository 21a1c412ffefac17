/** The API: requests typed by its schema, and errors with a hint. */
import createClient from "openapi-fetch";
import { SITE_ORIGIN, savedFetch, site } from "../site/answers";
import type { components, paths } from "./schema";

export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];

export class Problem extends Error {
  constructor(message: string, readonly hint: string | null = null, readonly status = 0) {
    super(message);
  }
}

const GONE = new Problem("The server is not responding.", "Restart it with: telic serve. Running jobs are not affected.");

if (site) globalThis.fetch = savedFetch(site); // a saved page has no server

export const api = createClient<paths>({ baseUrl: site ? SITE_ORIGIN : window.location.origin, querySerializer: { array: { style: "form", explode: true } } });

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** Return the data of an answer, or throw a Problem. */
export async function got<Data>(asked: Promise<Answer<Data>>): Promise<Data> {
  let answer: Answer<Data>;
  try {
    answer = await asked;
  } catch {
    throw GONE;
  }
  if (answer.response.ok) return answer.data as Data;
  throw problemOf(answer.error, answer.response.status);
}

export function problemOf(error: unknown, status: number): Problem {
  const given = error as { message?: string; hint?: string | null; detail?: unknown } | undefined;
  if (given?.message) return new Problem(given.message, given.hint ?? null, status);
  if (Array.isArray(given?.detail)) {
    const first = given.detail[0] as { msg?: string; loc?: string[] } | undefined;
    return new Problem(`${first?.loc?.slice(1).join(".") ?? "The request"}: ${first?.msg ?? "is not valid"}.`, null, status);
  }
  return new Problem(`The server responded with status ${status}.`, status >= 500 ? "See the output of telic serve." : null, status);
}

/** Fetch bytes, such as poses for the player. */
export async function gotBytes(address: string): Promise<ArrayBuffer> {
  let response: Response;
  try {
    response = await fetch(address);
  } catch {
    throw GONE;
  }
  if (!response.ok) throw problemOf(await response.json().catch(() => undefined), response.status);
  return response.arrayBuffer();
}

/** Read a route by its address. */
export async function read<Data>(address: string): Promise<Data> {
  let response: Response;
  try {
    response = await fetch(address);
  } catch {
    throw GONE;
  }
  const data: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw problemOf(data, response.status);
  return data as Data;
}

type Posted = { [Path in keyof paths]: paths[Path] extends { post: object } ? Path : never }[keyof paths];
type Parts<Path extends Posted> = paths[Path] extends { post: infer Route } ? Route : never;
type BodyOf<Path extends Posted> = Parts<Path> extends { requestBody?: { content: { "application/json": infer Body } } } ? Body : never;
type AnswerOf<Path extends Posted> = Parts<Path> extends { responses: infer All } ? (All extends { 200: { content: { "application/json": infer Data } } } ? Data : All extends { 202: { content: { "application/json": infer Data } } } ? Data : never) : never;

/** Post a request; fields that are left out have the default of the verb. */
export function ask<Path extends Posted>(path: Path, names: Record<string, string>, body: Partial<BodyOf<Path>>): Promise<AnswerOf<Path>> {
  const post = api.POST as unknown as (path: string, init: object) => Promise<Answer<AnswerOf<Path>>>;
  return got(post(path, { params: { path: names }, body }));
}
