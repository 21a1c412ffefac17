/** Benchmarks: intents that became policies, with intervals. */
import { Command, PageHead } from "../components/basics";
import { Empty } from "../components/states";

export default function BenchPage() {
  return (
    <>
      <PageHead title="Benchmarks" lede="Intents that become policies, measured." />
      <Empty title="Nothing was measured here yet"><Command line="telic bench intents" /></Empty>
    </>
  );
}
