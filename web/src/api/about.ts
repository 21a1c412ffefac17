/** Facts about the server; a saved page is read-only. */
import { site } from "../site/answers";

export function useAbout(): { isReadOnly: boolean } {
  return { isReadOnly: site !== null };
}
