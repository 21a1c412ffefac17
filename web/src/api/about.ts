/** What the server says of itself; a share link reads one thing and changes nothing. */
import { api, got } from "./client";
import { useLoaded } from "./use";

export function useAbout() {
  const loaded = useLoaded("about", () => got(api.GET("/api/about")));
  return { ...loaded, isReadOnly: loaded.value?.is_read_only ?? false, shared: loaded.value?.shared ?? null };
}
