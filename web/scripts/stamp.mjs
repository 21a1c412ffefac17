// Compress the engines, and write which sources the built copy was made from; tests/web/test_built_copy.py compares.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("../..", import.meta.url));
const single = ["index.html", "package.json", "tsconfig.json", "vite.config.ts", "vite.site.config.ts"].map((name) => join(root, "web", name));
const shared = join(root, "src/telic/report/colors.css");

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

const generated = new Set(["schema.json", "schema.ts"]); // types only: nothing of them is in the built copy
const isSource = (path) => !generated.has(path.slice(path.lastIndexOf("/") + 1)) && !path.endsWith(".test.ts");
const sources = [...single, shared, ...files(join(root, "web/src")), ...files(join(root, "web/public"))]
  .filter(isSource)
  .map((path) => [relative(root, path).replaceAll("\\", "/"), path])
  .sort(([a], [b]) => (a < b ? -1 : 1));
const hash = createHash("sha256");
for (const [name, path] of sources) hash.update(`${name}\n`).update(createHash("sha256").update(readFileSync(path)).digest("hex")).update("\n");
writeFileSync(join(root, "src/telic/web/static/sources.sha256"), `${hash.digest("hex")}\n`);

// The two engines are 25 MB; a browser unpacks what it is sent, and the server sends them as they lie.
for (const path of files(join(root, "src/telic/web/static/assets"))) {
  if (!path.endsWith(".wasm")) continue;
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
  rmSync(path);
}
