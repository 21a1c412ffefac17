import react from "@vitejs/plugin-react";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const colors = fileURLToPath(new URL("../src/telic/report/colors.css", import.meta.url));

/** The colors of the reports, with a theme that can be chosen: one definition for both. */
function reportColors(): Plugin {
  const name = "virtual:colors.css";
  return {
    name: "report-colors",
    resolveId: (id) => (id === name ? `\0${name}` : undefined),
    load(id) {
      if (id !== `\0${name}`) return undefined;
      this.addWatchFile(colors);
      const blocks = [...readFileSync(colors, "utf8").matchAll(/:root\s*\{([^}]*)\}/g)].map((match) => match[1]!.trim());
      const [light, dark] = blocks;
      if (!light || !dark) throw new Error("colors.css has no longer two blocks of colors");
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

/** MuJoCo's bindings write functions as text, which the policy of our pages forbids: the same as closures. */
const CLOSURES: [string, string][] = [
  [
    "var invokerFn = new Function(...args, invokerFnBody)(...closureArgs);",
    `var firstWired = isClassMethodFunc ? 1 : 2;
    var invokerFn = function (...given) {
      checkArgCount(given.length, minArgs, expectedArgCount, humanName, throwBindingError);
      var destructors = needsDestructorStack ? [] : null;
      var wired = isClassMethodFunc ? [argTypes[1]['toWireType'](destructors, this)] : [];
      for (var i = 2; i < argCount; ++i) wired.push(argTypes[i]['toWireType'](destructors, given[i - 2]));
      var answer = cppInvokerFunc(cppTargetFunc, ...wired);
      if (destructors) runDestructors(destructors);
      else for (var i = firstWired; i < argCount; ++i) if (argTypes[i].destructorFunction !== null) argTypes[i].destructorFunction(wired[i - firstWired]);
      if (returns) return argTypes[0]['fromWireType'](answer);
    };`,
  ],
  ["let [args, invokerFnBody] = createJsInvoker(argTypes, isClassMethodFunc, returns, isAsync);", ""],
  [
    "var invokerFunction = new Function(...params, functionBody)(...args);",
    `var invokerFunction = function (obj, func, destructorsRef, given) {
      var read = [];
      for (var type of types) {
        read.push(type.readValueFromPointer(given));
        given += type.argPackAdvance;
      }
      var answer = kind === 1 ? new func(...read) : kind === 0 ? func.call(obj, ...read) : func.call(...read);
      if (!retType.isVoid) return emval_returnValue(retType, destructorsRef, answer);
    };`,
  ],
];

function noWrittenFunctions(): Plugin {
  return {
    name: "no-written-functions",
    enforce: "pre",
    transform(code, id) {
      if (!id.includes("@mujoco/mujoco/mujoco.js")) return undefined;
      for (const [text] of CLOSURES) if (!code.includes(text)) throw new Error(`@mujoco/mujoco no longer has: ${text}`);
      const made = CLOSURES.reduce((now, [text, closure]) => now.replace(text, () => closure), code);
      if (/new Function\b|\beval\(/.test(made)) throw new Error("@mujoco/mujoco writes functions elsewhere, too");
      return made;
    },
  };
}

/** What every build of the pages goes through. */
export function plugins(): (Plugin | Plugin[])[] {
  return [noWrittenFunctions(), onlyWoff2(), react(), reportColors()];
}

export default defineConfig({
  plugins: plugins(),
  define: { __SITE__: "false" },
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
