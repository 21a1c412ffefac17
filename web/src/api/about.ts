/** Facts about the server; a saved page reads one thing and changes nothing. */
import { site } from "../site/answers";

export function useAbout(): { isReadOnly: boolean } {
  return { isReadOnly: site !== null };
}
