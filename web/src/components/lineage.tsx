/** The tree of iterations, colored by score. */
import { score } from "../format";

export interface LineageNode {
  id: string;
  parent: string | null;
  title: string;
  note: string;
  score: number | null;
  isBest?: boolean;
}

const WIDTH = 176;
const HEIGHT = 50;
const ACROSS = 34;
const DOWN = 12;

export interface PlacedNode extends LineageNode {
  x: number;
  y: number;
}

/** Place every node: depth to the right, siblings below each other, a parent level with its first child. */
export function placed(nodes: LineageNode[]): PlacedNode[] {
  const known = new Set(nodes.map((node) => node.id));
  const children = new Map<string | null, LineageNode[]>();
  for (const node of nodes) {
    const parent = node.parent !== null && known.has(node.parent) && node.parent !== node.id ? node.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const found: PlacedNode[] = [];
  const seen = new Set<string>();
  let row = 0;
  const walk = (node: LineageNode, depth: number): void => {
    if (seen.has(node.id)) return;
    seen.add(node.id);
    found.push({ ...node, x: depth * (WIDTH + ACROSS), y: row * (HEIGHT + DOWN) });
    const below = children.get(node.id) ?? [];
    below.forEach((child, index) => {
      if (index > 0) row += 1;
      walk(child, depth + 1);
    });
  };
  for (const root of children.get(null) ?? []) {
    if (found.length) row += 1;
    walk(root, 0);
  }
  for (const node of nodes) // nodes of a cycle
    if (!seen.has(node.id)) {
      row += 1;
      walk(node, 0);
    }
  return found;
}

export function Lineage({ nodes, chosen, onOpen }: { nodes: LineageNode[]; chosen?: string | null; onOpen: (id: string) => void }) {
  const all = placed(nodes);
  const byId = new Map(all.map((node) => [node.id, node]));
  const width = Math.max(...all.map((node) => node.x)) + WIDTH + 4;
  const height = Math.max(...all.map((node) => node.y)) + HEIGHT + 4;
  return (
    <div className="tree" tabIndex={0} role="group" aria-label="Iteration lineage">
      <svg width={width} height={height}>
        <g transform="translate(2 2)">
          {all.map((node) => {
            const parent = node.parent === null ? undefined : byId.get(node.parent);
            if (!parent) return null;
            const [x, y, x2, y2] = [parent.x + WIDTH, parent.y + HEIGHT / 2, node.x, node.y + HEIGHT / 2];
            return <path key={node.id} className="edge" d={`M${x} ${y}C${x + ACROSS / 2} ${y} ${x2 - ACROSS / 2} ${y2} ${x2} ${y2}`} />;
          })}
          {all.map((node) => (
            <a key={node.id} href="#" onClick={(event) => { event.preventDefault(); onOpen(node.id); }}>
              <g className={`node ${chosen === node.id ? "chosen" : ""} ${node.isBest ? "best" : ""}`} transform={`translate(${node.x} ${node.y})`}>
                <rect className="box" width={WIDTH} height={HEIGHT} rx="8" />
                <rect x="1" y={HEIGHT - 5} width={node.score === null ? 0 : (WIDTH - 2) * Math.max(0.02, node.score)} height="4" rx="2" style={{ fill: node.score === null ? "none" : `color-mix(in oklab, var(--good) ${Math.round(node.score * 100)}%, var(--bad))`, stroke: "none" }} />
                <text x="10" y="20" fontWeight="600">{node.isBest ? "★ " : ""}{node.title}</text>
                <text x={WIDTH - 10} y="20" textAnchor="end">{node.score === null ? "" : `mean ${score(node.score)}`}</text>
                <text className="note" x="10" y="36">{node.note.length > 27 ? `${node.note.slice(0, 26)}…` : node.note}</text>
                <title>{node.note}</title>
              </g>
            </a>
          ))}
        </g>
      </svg>
    </div>
  );
}
