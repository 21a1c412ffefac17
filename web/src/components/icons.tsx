/** Icons of the navigation and of buttons. */
const PATHS: Record<string, string> = {
  start: "M12 3v18M3 12h18",
  runs: "M4 6h16M4 12h16M4 18h16",
  gallery: "M4 5h16v14H4zM4 15l5-4 4 3 3-2 4 3M15 9h.01",
  search: "M11 5a6 6 0 1 0 0 12a6 6 0 0 0 0-12M20 20l-4.5-4.5",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 20h4",
  compare: "M4 19V5M4 19h16M8 15l4-6 3 3 5-7",
  studies: "M5 4h14v16H5zM9 9h6M9 13h6M9 17h3",
  bench: "M4 20h16M7 20v-7M12 20V5M17 20v-10",
  robots: "M6 9h12v9H6zM12 9V5M9 13h.01M15 13h.01M3 12v3M21 12v3",
  machine: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  play: "M7 5l12 7-12 7z",
  pause: "M8 5v14M16 5v14",
  stop: "M6 6h12v12H6z",
  sun: "M12 4V2M12 22v-2M4 12H2M22 12h-2M6 6 4.6 4.6M19.4 19.4 18 18M6 18l-1.4 1.4M19.4 4.6 18 6M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8",
  moon: "M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  keys: "M3 7h18v10H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg viewBox="0 0 24 24" fill={name === "play" ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name] ?? ""} />
    </svg>
  );
}
