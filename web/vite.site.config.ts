/** The pages as one plain script, for `telic report THING --site DIR`: a browser loads no modules from disk. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { plugins } from "./vite.config";

export default defineConfig({
  plugins: plugins(),
  define: { __SITE__: "true", "process.env.NODE_ENV": '"production"' },
  publicDir: false,
  resolve: { alias: [{ find: "./port", replacement: fileURLToPath(new URL("src/site/port.ts", import.meta.url)) }] },
  build: {
    outDir: "../src/telic/web/static/site",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 1 << 20,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 4000,
    lib: { entry: "src/site.tsx", formats: ["iife"], name: "telic", fileName: () => "site.js", cssFileName: "site" },
  },
});
