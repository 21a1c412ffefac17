import react from "@vitejs/plugin-react";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const colours = fileURLToPath(new URL("../src/telic/report/colours.css", import.meta.url));

/** The colours of the reports, with a theme that can be chosen: one definition for both. */
function reportColours(): Plugin {
  const name = "virtual:colours.css";
  return {
    name: "report-colours",
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    load(id) {
      if (id !== `\0${name}`) return undefined;
      this.addWatchFile(colours);
      const blocks = [...readFileSync(colours, "utf8").matchAll(/:root\s*\{([^}]*)\}/g)].map((match) => match[1]!.trim());
      const [light, dark] = blocks;
      if (!light || !dark) throw new Error("colours.css has no longer two blocks of colours");
      return (
        `:root { ${light} }\n@media (prefers-color-scheme: dark) { :root { ${dark} } }\n` +
        `:root[data-theme="light"] { ${light} color-scheme: light; }\n:root[data-theme="dark"] { ${dark} color-scheme: dark; }\n`
      );
    },
  };
}

/** Every browser that runs this reads woff2; the older files of the fonts would only make the package larger. */
function onlyWoff2(): Plugin {
  return {
    name: "only-woff2",
    enforce: "pre",
    transform: (code, id) => (id.includes("katex") && id.includes(".css") ? code.replaceAll(/,url\([^)]*\.(?:woff|ttf)\) format\("[a-z]+"\)/g, "") : undefined),
  };
}

export default defineConfig({
  plugins: [onlyWoff2(), react(), reportColours()],
  build: {
    outDir: "../src/telic/web/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": process.env.TELIC_ADDRESS ?? "http://127.0.0.1:8787" } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
