/** What somebody writes into the filter: words, and conditions such as score>=0.8. */
const CONDITION = /^[a-z_]+(<=|>=|!=|=|<|>|~)\S+$/;

/** Split a filter into words to look for and conditions; quotes keep blanks together. */
export function conditionsOf(filter: string): { words: string; conditions: string[] } {
  const parts = filter.match(/(?:[^\s"]|"[^"]*")+/g) ?? [];
  const isCondition = (part: string) => CONDITION.test(part.replaceAll(/"[^"]*"/g, "x"));
  return {
    words: parts.filter((part) => !isCondition(part)).join(" ").replaceAll('"', ""),
    conditions: parts.filter(isCondition),
  };
}
