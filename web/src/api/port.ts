/** Open the worker that holds the event stream; shared by all tabs where possible. */
import type { FromStream, ToStream } from "./live";

export function openPort(receive: (message: FromStream) => void): (message: ToStream) => void {
  const listen = ({ data }: MessageEvent<FromStream>) => receive(data);
  if (typeof SharedWorker === "undefined") {
    const worker = new Worker(new URL("./stream.worker.ts", import.meta.url), { type: "module", name: "telic-stream" });
    worker.onmessage = listen;
    return (message) => worker.postMessage(message);
  }
  const { port } = new SharedWorker(new URL("./stream.worker.ts", import.meta.url), { type: "module", name: "telic-stream" });
  port.onmessage = listen;
  return (message) => port.postMessage(message);
}
