/** The frame of every page: navigation, routes, theme, shortcuts, search, notifications. */
import { QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef, useState, type ComponentType } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { useAbout } from "./api/about";
import { useRunning } from "./api/live";
import { queries } from "./api/query";
import { Icon } from "./components/icons";
import { Empty, Fence, Loading } from "./components/states";
import { Dialog, Toasts } from "./components/toast";
import { shortcutsNow, useShortcuts } from "./keyboard";
import { NotificationButton, useEndings } from "./notify";
import { setTheme, useChosenTheme, type Theme } from "./theme";
import { site } from "./site/answers";
import { StartPage } from "./pages/start";

const page = <Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) => lazy(load);
const ArtifactPage = page(() => import("./pages/artifact"));
const RunsPage = page(() => import("./pages/runs"));
const GalleryPage = page(() => import("./pages/gallery"));
const ComparePage = page(() => import("./pages/compare"));
const LivePage = __SITE__ ? () => null : page(() => import("./pages/live")); // its engines are too large for a saved page
const PlayerPage = page(() => import("./pages/player"));
const StudiesPage = page(() => import("./pages/studies"));
const BenchPage = page(() => import("./pages/bench"));
const MachinePage = page(() => import("./pages/machine"));
const RobotsPage = page(() => import("./pages/robots"));
const TrashPage = page(() => import("./pages/trash"));
const Palette = lazy(() => import("./components/palette").then(({ Palette: default_ }) => ({ default: default_ })));

const PAGES: { path: string; name: string; icon: string; key: string }[] = [
  { path: "/", name: "Start", icon: "start", key: "n" },
  { path: "/runs", name: "Runs", icon: "runs", key: "r" },
  { path: "/gallery", name: "Gallery", icon: "gallery", key: "a" },
  { path: "/compare", name: "Compare", icon: "compare", key: "c" },
  { path: "/studies", name: "Studies", icon: "studies", key: "s" },
  { path: "/bench", name: "Benchmarks", icon: "bench", key: "b" },
  { path: "/robots", name: "Robots", icon: "robots", key: "o" },
  { path: "/machine", name: "Machine", icon: "machine", key: "m" },
  { path: "/trash", name: "Trash", icon: "trash", key: "t" },
];
const SAVED = PAGES.filter(({ path }) => path === "/gallery");

export function App() {
  return <QueryClientProvider client={queries}><Frame /></QueryClientProvider>;
}

function Frame() {
  const [location, go] = useLocation();
  const [open, setOpen] = useState<"keys" | "palette" | null>(null);
  const main = useRef<HTMLElement>(null);
  const running = useRunning();
  const about = useAbout();
  useEndings();
  useShortcuts([
    { keys: "?", does: "show keyboard shortcuts", act: () => setOpen("keys") },
    ...PAGES.map(({ path, name, key }) => ({ keys: `g ${key}`, does: `go to ${name.toLowerCase()}`, act: () => go(path) })),
  ]);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || about.isReadOnly) return;
      event.preventDefault();
      setOpen((old) => (old === "palette" ? null : "palette"));
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [about.isReadOnly]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });  // a phone shows a part of them
  }, [location]);
  const here = "/" + (location.split("/")[1] ?? "");
  return (
    <div className="app">
      <a className="skip" href="#main">Skip to content</a>
      <nav className="rail" aria-label="Pages">
        <Link href={site ? `/runs/${site.artifact}` : "/"} className="brand">{!__SITE__ && <img src="/mark.svg" alt="" />}<span>telic</span></Link>
        {site && <span className="small soft" style={{ padding: "0 0.6rem" }}>saved {site.made.slice(0, 10)}</span>}
        {!about.isReadOnly && <button type="button" className="plain search" onClick={() => setOpen("palette")}><Icon name="search" /><span>Search</span><kbd>Ctrl K</kbd></button>}
        {(about.isReadOnly ? SAVED : PAGES).map(({ path, name, icon }) => (
          <Link key={path} href={path} className="item" aria-current={here === path ? "page" : undefined}>
            <Icon name={icon} />{name}
            {path === "/runs" && running !== null && running.length > 0 && <span className="count" title={`${running.length} running`}>{running.length}<span className="sr"> running</span></span>}
          </Link>
        ))}
        <div className="foot">
          <ThemeButton />
          {!about.isReadOnly && <NotificationButton />}
          <button type="button" className="plain wide" onClick={() => setOpen("keys")} aria-label="Keyboard shortcuts"><Icon name="keys" /><kbd>?</kbd></button>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Fence name={location} key={here}>
          <Suspense fallback={<Loading />}>
            <Switch>
              <Route path="/" component={StartPage} />
              <Route path="/gallery" component={GalleryPage} />
              <Route path="/runs" component={RunsPage} />
              <Route path="/runs/:id/*?" component={ArtifactPage} />
              <Route path="/artifacts/*" /* language: quoted */>{({ "*": rest }) => <Redirect to={`/runs/${rest}`} replace />}</Route>
              <Route path="/live/:id" component={LivePage} />
              <Route path="/play/:id/*?" component={PlayerPage} />
              <Route path="/compare" component={ComparePage} />
              <Route path="/studies" component={StudiesPage} />
              <Route path="/bench/*?" component={BenchPage} />
              <Route path="/robots" component={RobotsPage} />
              <Route path="/machine" component={MachinePage} />
              <Route path="/trash" component={TrashPage} />
              <Route><Empty title="Page not found">Use the sidebar to open another page.</Empty></Route>
            </Switch>
          </Suspense>
        </Fence>
      </main>
      <Toasts />
      {open === "keys" && <Shortcuts onClose={() => setOpen(null)} />}
      {open === "palette" && <Suspense><Palette pages={PAGES} onClose={() => setOpen(null)} /></Suspense>}
    </div>
  );
}

const THEMES: Record<Theme, [Theme, string, string]> = {
  system: ["dark", "auto", "system"],
  dark: ["light", "moon", "dark"],
  light: ["system", "sun", "light"],
};

function ThemeButton() {
  const theme = useChosenTheme();
  const [next, icon, name] = THEMES[theme];
  return (
    <button type="button" className="plain" onClick={() => setTheme(next)} aria-label={`Theme: ${name}. Switch to ${next}.`} title={`Theme: ${name}`}>
      <Icon name={icon} />
    </button>
  );
}

function Shortcuts({ onClose }: { onClose: () => void }) {
  const [shortcuts] = useState(shortcutsNow);
  const rows = [...shortcuts, { keys: "Ctrl K", does: "search pages, runs, rewards and work orders" }];
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="facts">
        {rows.map(({ keys, does }) => (
          <div key={keys} style={{ display: "contents" }}>
            <dt>{keys === " " ? <kbd>Space</kbd> : keys.split(" ").map((key, index) => <kbd key={index} style={{ marginRight: 4 }}>{key}</kbd>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
