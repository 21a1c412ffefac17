/** The frame of every page: navigation, routes, theme, keys. */
import { lazy, Suspense, useEffect, useRef, useState, type ComponentType } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { Icon } from "./components/icons";
import { Empty, Fence, Loading } from "./components/states";
import { Dialog, Toasts } from "./components/toast";
import { shortcutsNow, useShortcuts } from "./keyboard";
import { setTheme, useChosenTheme, type Theme } from "./theme";
import { useAbout } from "./api/about";
import { site } from "./site/answers";
import { StartPage } from "./pages/start";

const page = <Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) => lazy(load);
const ThingPage = page(() => import("./pages/thing"));
const RunsPage = page(() => import("./pages/runs"));
const ComparePage = page(() => import("./pages/compare"));
const LivePage = __SITE__ ? () => null : page(() => import("./pages/live")); // its engines are not for a page on disk
const PlayerPage = page(() => import("./pages/player"));
const StudiesPage = page(() => import("./pages/studies"));
const BenchPage = page(() => import("./pages/bench"));
const MachinePage = page(() => import("./pages/machine"));
const RobotsPage = page(() => import("./pages/robots"));
const TrashPage = page(() => import("./pages/trash"));

const PAGES: { path: string; name: string; icon: string; key: string }[] = [
  { path: "/", name: "Start", icon: "start", key: "n" },
  { path: "/runs", name: "Runs", icon: "runs", key: "r" },
  { path: "/compare", name: "Compare", icon: "compare", key: "c" },
  { path: "/studies", name: "Studies", icon: "studies", key: "s" },
  { path: "/bench", name: "Benchmarks", icon: "bench", key: "b" },
  { path: "/robots", name: "Robots", icon: "robots", key: "o" },
  { path: "/machine", name: "Machine", icon: "machine", key: "m" },
  { path: "/trash", name: "Trash", icon: "trash", key: "t" },
];

export function App() {
  const [location, go] = useLocation();
  const [showsKeys, setShowsKeys] = useState(false);
  const main = useRef<HTMLElement>(null);
  const about = useAbout();
  useShortcuts([
    { keys: "?", does: "show all keys", act: () => setShowsKeys(true) },
    ...PAGES.map(({ path, name, key }) => ({ keys: `g ${key}`, does: `go to ${name.toLowerCase()}`, act: () => go(path) })),
  ]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [location]);
  const here = "/" + (location.split("/")[1] ?? "");
  const isShared = about.isReadOnly;
  return (
    <div className="app">
      <a className="skip" href="#main">Skip to the page</a>
      <nav className="rail" aria-label="Pages">
        <Link href="/" className="brand">{!__SITE__ && <img src="/mark.svg" alt="" />}<span>telic</span></Link>
        {site && <span className="small soft" style={{ padding: "0 0.6rem" }}>saved {site.made.slice(0, 10)}</span>}
        {(isShared ? [] : PAGES).map(({ path, name, icon }) => (
          <Link key={path} href={path} className="item" aria-current={here === path ? "page" : undefined}>
            <Icon name={icon} />{name}
          </Link>
        ))}
        <div className="foot">
          <ThemeButton />
          <button type="button" className="plain wide" onClick={() => setShowsKeys(true)} aria-label="Keys"><Icon name="keys" /><kbd>?</kbd></button>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Fence name={location} key={here}>
          <Suspense fallback={<Loading />}>
            <Switch>
              <Route path="/" component={StartPage} />
              <Route path="/runs" component={RunsPage} />
              <Route path="/things/:id/*?" component={ThingPage} />
              <Route path="/live/:id" component={LivePage} />
              <Route path="/play/:id/*?" component={PlayerPage} />
              <Route path="/compare" component={ComparePage} />
              <Route path="/studies" component={StudiesPage} />
              <Route path="/bench/*?" component={BenchPage} />
              <Route path="/robots" component={RobotsPage} />
              <Route path="/machine" component={MachinePage} />
              <Route path="/trash" component={TrashPage} />
              <Route><Empty title="There is no such page">The navigation leads to those that there are.</Empty></Route>
            </Switch>
          </Suspense>
        </Fence>
      </main>
      <Toasts />
      {showsKeys && <Keys onClose={() => setShowsKeys(false)} />}
    </div>
  );
}

const THEMES: Record<Theme, [Theme, string, string]> = {
  system: ["dark", "auto", "as the system"],
  dark: ["light", "moon", "dark"],
  light: ["system", "sun", "light"],
};

function ThemeButton() {
  const theme = useChosenTheme();
  const [next, icon, name] = THEMES[theme];
  return (
    <button type="button" className="plain" onClick={() => setTheme(next)} aria-label={`Theme: ${name}. Change it.`} title={`Theme: ${name}`}>
      <Icon name={icon} />
    </button>
  );
}

function Keys({ onClose }: { onClose: () => void }) {
  const [shortcuts] = useState(shortcutsNow);
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="facts">
        {shortcuts.map(({ keys, does }) => (
          <div key={keys} style={{ display: "contents" }}>
            <dt>{keys.split(" ").map((key, index) => <kbd key={index} style={{ marginRight: 4 }}>{key === " " || key === "" ? "Space" : key}</kbd>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
