/** A robot in three dimensions from recorded body poses; three.js comes with this chunk only. */
import {
  AmbientLight, BoxGeometry, BufferAttribute, BufferGeometry, CapsuleGeometry, Color, CylinderGeometry, DirectionalLight, DoubleSide, Fog, FrontSide, DataTexture, Group,
  HemisphereLight, Line, LinearMipmapLinearFilter, NearestFilter, RepeatWrapping, LineBasicMaterial, Mesh, MeshStandardMaterial, PCFShadowMap, PerspectiveCamera, Plane, PlaneGeometry, Quaternion, Raycaster, Scene, SphereGeometry, Vector2, Vector3, WebGLRenderer,
  type Object3D,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

export interface Geom {
  body: number;
  type: string;
  size: number[];
  position: number[];
  /** w, x, y, z */
  rotation: number[];
  color: number[];
  mesh: number | null;
}

export interface ModelShape {
  bodies: string[];
  geoms: Geom[];
  meshes: { vertices: Float32Array; faces: Uint32Array }[];
  fields: { heights: Float32Array; rows: number; columns: number; size: number[] }[];
}

export interface Motion {
  frames: number;
  bodies: number;
  /** frames x bodies x 7: position, then rotation as w, x, y, z */
  poses: Float32Array;
}

/** The held point of a robot. */
export interface Grip {
  body: number;
  point: Vector3;
}

/** Camera change per key: azimuth and elevation, rad, and distance factor. */
const LOOKS: Record<string, [number, number, number]> = {
  ArrowLeft: [-0.15, 0, 1], ArrowRight: [0.15, 0, 1], ArrowUp: [0, 0.1, 1], ArrowDown: [0, -0.1, 1],
  "+": [0, 0, 0.85], "=": [0, 0, 0.85], "-": [0, 0, 1 / 0.85],
};

interface Actor {
  model: ModelShape;
  motion: Motion;
  groups: Group[];
  offset: Vector3;
}

export class RobotScene {
  readonly #renderer: WebGLRenderer;
  readonly #scene = new Scene();
  readonly #camera = new PerspectiveCamera(45, 1, 0.02, 400);
  readonly #controls: OrbitControls;
  readonly #sun = new DirectionalLight(0xffffff, 2.4);
  readonly #observer: ResizeObserver;
  readonly #rope = new Line(new BufferGeometry(), new LineBasicMaterial({ color: 0xff7a45 }));
  readonly #ground = ground();
  #actors: Actor[] = [];
  #target = new Vector3();
  #isPlaced = false;
  follows = true;

  constructor(canvas: HTMLCanvasElement, isDark: boolean) {
    this.#renderer = new WebGLRenderer({ canvas, antialias: true, powerPreference: "low-power" });
    this.#renderer.setPixelRatio(Math.min(2, devicePixelRatio));
    this.#renderer.shadowMap.enabled = true;
    this.#renderer.shadowMap.type = PCFShadowMap;
    this.#camera.up.set(0, 0, 1);
    this.#controls = new OrbitControls(this.#camera, canvas);
    this.#controls.maxPolarAngle = Math.PI * 0.54;
    this.#controls.addEventListener("change", () => this.draw());
    canvas.tabIndex = 0;
    canvas.addEventListener("keydown", this.#keys);
    this.#light();
    this.setDark(isDark);
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(canvas.parentElement ?? canvas);
    this.#resize();
  }

  #keys = (event: KeyboardEvent): void => {
    const [around, up, nearer] = LOOKS[event.key] ?? [];
    if (around === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // arrow keys must not scroll the page
    this.turn(around, up!, nearer!);
  };

  /** Orbit the camera around its target, rad, and scale its distance. */
  turn(around: number, up: number, nearer: number): void {
    const away = this.#camera.position.clone().sub(this.#controls.target);
    const heading = Math.atan2(away.y, away.x) + around;
    const tilt = Math.max(-0.1, Math.min(1.5, Math.atan2(away.z, Math.hypot(away.x, away.y)) + up));
    const direction = new Vector3(Math.cos(heading) * Math.cos(tilt), Math.sin(heading) * Math.cos(tilt), Math.sin(tilt));
    this.#camera.position.copy(this.#controls.target).addScaledVector(direction, away.length() * nearer);
    this.#controls.update();
    this.draw();
  }

  #light(): void {
    this.#scene.add(new AmbientLight(0xffffff, 0.5), new HemisphereLight(0xffffff, 0x667788, 1.1), this.#sun, this.#sun.target);
    this.#ground.visible = false;
    this.#scene.add(this.#ground);
    this.#rope.visible = false;
    this.#rope.frustumCulled = false;
    this.#scene.add(this.#rope);
    this.#sun.castShadow = true;
    this.#sun.shadow.mapSize.set(1024, 1024);
  }

  setDark(isDark: boolean): void {
    const sky = new Color(isDark ? 0x14171b : 0xeef1f4);
    this.#scene.background = sky;
    this.#scene.fog = new Fog(sky, 14, 60);
    (this.#ground.material as MeshStandardMaterial).color.set(isDark ? 0x39414b : 0xc9d0d7);
    this.draw();
  }

  /** Show robots side by side, or overlaid. */
  setActors(shown: { model: ModelShape; motion: Motion; tint?: string; isGhost?: boolean; lane?: number }[], sideBySide: boolean): void {
    for (const actor of this.#actors) for (const group of actor.groups) this.#remove(group);
    const lanes = Math.max(0, ...shown.map(({ lane }, index) => lane ?? index));
    this.#actors = shown.map(({ model, motion, tint, isGhost, lane }, index) => {
      const groups = model.bodies.map(() => new Group());
      for (const geom of model.geoms) {
        const made = shape(geom, model, tint, isGhost ?? false);
        if (made) groups[geom.body]?.add(made);
      }
      groups.forEach((group) => this.#scene.add(group));
      return { model, motion, groups, offset: new Vector3(0, sideBySide ? ((lane ?? index) - lanes / 2) * 1.6 : 0, 0) };
    });
    const floor = shown[0]?.model.geoms.find(isFloor);
    this.#ground.visible = floor !== undefined;
    this.#ground.position.z = floor?.position[2] ?? 0;
    this.#isPlaced = false;
  }

  /** Show the pose at a fraction, from 0 to 1, of a motion of `seconds`. */
  show(frame: number): void {
    this.#actors.forEach((actor, index) => {
      const { motion, groups, offset } = actor;
      const row = Math.max(0, Math.min(motion.frames - 1, Math.round(frame)));
      for (let body = 0; body < Math.min(groups.length, motion.bodies); body += 1) {
        const at = (row * motion.bodies + body) * 7;
        const pose = motion.poses;
        const group = groups[body]!;
        group.position.set(pose[at]! + offset.x, pose[at + 1]! + offset.y, pose[at + 2]! + offset.z);
        group.quaternion.set(pose[at + 4]!, pose[at + 5]!, pose[at + 6]!, pose[at + 3]!);
      }
      if (index === 0) this.#follow(actor, row);
    });
    this.draw();
  }

  #follow({ motion }: Actor, row: number): void {
    const body = motion.bodies > 1 ? 1 : 0;
    const at = (row * motion.bodies + body) * 7;
    const next = new Vector3(motion.poses[at]!, motion.poses[at + 1]!, Math.max(0.2, motion.poses[at + 2]! * 0.8));
    if (!this.#isPlaced) {
      const size = this.#size(row);
      this.#camera.position.copy(next).add(new Vector3(size * 0.7, -size * 2.1, size * 0.75));
      this.#controls.target.copy(next);
      this.#isPlaced = true;
    } else if (this.follows) {
      const move = next.clone().sub(this.#target);
      this.#camera.position.add(move);
      this.#controls.target.add(move);
    }
    this.#target.copy(next);
    this.#sun.position.copy(next).add(new Vector3(3, -4, 8));
    this.#sun.target.position.copy(next);
    this.#controls.update();
  }

  /** Camera distance: the extent of the bodies, and of a second robot. */
  #size(row: number): number {
    let reach = 0.6;
    for (const { motion, offset } of this.#actors) {
      for (let body = 1; body < motion.bodies; body += 1) {
        const at = (row * motion.bodies + body) * 7;
        const root = (row * motion.bodies + 1) * 7;
        reach = Math.max(reach, Math.hypot(motion.poses[at]! - motion.poses[root]!, motion.poses[at + 1]! - motion.poses[root + 1]!, motion.poses[at + 2]! - motion.poses[root + 2]!) + Math.abs(offset.y) * 1.2);
      }
    }
    return reach * 1.5;
  }

  /** The body of the first robot under the pointer, and the point in its frame. */
  pick(event: PointerEvent): Grip | null {
    const groups = this.#actors[0]?.groups ?? [];
    const [hit] = this.#ray(event).intersectObjects(groups.slice(1), true);
    let part: Object3D | null = hit?.object ?? null;
    while (part && !groups.includes(part as Group)) part = part.parent;
    if (!hit || !part) return null;
    return { body: groups.indexOf(part as Group), point: part.worldToLocal(hit.point.clone()) };
  }

  /** The vector from a held point to the pointer, in the plane that faces the camera, m; it is drawn. */
  pullTo(grip: Grip, event: PointerEvent): [number, number, number] {
    const held = this.#actors[0]!.groups[grip.body]!.localToWorld(grip.point.clone());
    const facing = new Plane().setFromNormalAndCoplanarPoint(this.#camera.getWorldDirection(new Vector3()), held);
    const end = this.#ray(event).ray.intersectPlane(facing, new Vector3()) ?? held;
    this.#rope.geometry.setFromPoints([held, end]);
    this.#rope.visible = true;
    return end.clone().sub(held).toArray();
  }

  letGo(): void {
    this.#rope.visible = false;
    this.draw();
  }

  /** Whether the pointer turns the camera. */
  set turns(turns: boolean) {
    this.#controls.enabled = turns;
  }

  #ray(event: PointerEvent): Raycaster {
    const box = this.#renderer.domElement.getBoundingClientRect();
    const at = new Vector2(((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2);
    const caster = new Raycaster();
    caster.setFromCamera(at, this.#camera);
    return caster;
  }

  draw(): void {
    this.#renderer.render(this.#scene, this.#camera);
  }

  #resize(): void {
    const place = this.#renderer.domElement.parentElement;
    const [width, height] = [place?.clientWidth || 300, place?.clientHeight || 200];
    this.#renderer.setSize(width, height, false);
    this.#camera.aspect = width / height;
    this.#camera.updateProjectionMatrix();
    this.draw();
  }

  #remove(group: Object3D): void {
    group.traverse((part) => {
      if (part instanceof Mesh) {
        part.geometry.dispose();
        (part.material as MeshStandardMaterial).dispose();
      }
    });
    this.#scene.remove(group);
  }

  close(): void {
    this.#observer.disconnect();
    this.#renderer.domElement.removeEventListener("keydown", this.#keys);
    this.#controls.dispose();
    for (const actor of this.#actors) for (const group of actor.groups) this.#remove(group);
    this.#renderer.dispose();
  }
}

function shape(geom: Geom, model: ModelShape, tint: string | undefined, isGhost: boolean): Mesh | null {
  if (isFloor(geom)) return null; // the scene has one for all
  const made = geometry(geom, model);
  if (!made) return null;
  const [red = 0.6, green = 0.6, blue = 0.6, alpha = 1] = geom.color;
  const paint = new Color().setRGB(red, green, blue, "srgb");
  if (tint) paint.lerp(new Color(tint), 0.65);
  const opacity = isGhost ? 0.35 : alpha;
  const mesh = new Mesh(made, new MeshStandardMaterial({ color: paint, roughness: 0.55, metalness: 0.08, transparent: opacity < 1, opacity, side: geom.type === "mesh" ? DoubleSide : FrontSide }));
  mesh.castShadow = !isGhost;
  mesh.receiveShadow = !isGhost;
  mesh.position.fromArray(geom.position);
  const [w = 1, x = 0, y = 0, z = 0] = geom.rotation;
  mesh.quaternion.copy(new Quaternion(x, y, z, w));
  return mesh;
}

function isFloor(geom: Geom): boolean {
  return geom.type === "plane" && geom.body === 0;
}

const GROUND_M = 400;

/** Tiles of half a meter: without them the speed of a robot that the camera follows is not visible. */
function ground(): Mesh {
  const tones = new Uint8Array([255, 232, 232, 255].flatMap((tone) => [tone, tone, tone, 255]));
  const tiles = new DataTexture(tones, 2, 2);
  tiles.wrapS = tiles.wrapT = RepeatWrapping;
  tiles.repeat.set(GROUND_M, GROUND_M);
  tiles.magFilter = NearestFilter;
  tiles.minFilter = LinearMipmapLinearFilter;
  tiles.generateMipmaps = true;
  tiles.anisotropy = 8;
  tiles.needsUpdate = true;
  const mesh = new Mesh(new PlaneGeometry(GROUND_M, GROUND_M), new MeshStandardMaterial({ map: tiles, roughness: 1 }));
  mesh.receiveShadow = true;
  return mesh;
}

function geometry(geom: Geom, model: ModelShape): BufferGeometry | null {
  const [a = 0.1, b = 0.1, c = 0.1] = geom.size;
  switch (geom.type) {
    case "sphere":
      return new SphereGeometry(a, 24, 16);
    case "ellipsoid":
      return new SphereGeometry(1, 24, 16).scale(a, b, c);
    case "capsule":
      return new CapsuleGeometry(a, 2 * b, 8, 20).rotateX(Math.PI / 2);
    case "cylinder":
      return new CylinderGeometry(a, a, 2 * b, 28).rotateX(Math.PI / 2);
    case "box":
      return new BoxGeometry(2 * a, 2 * b, 2 * c);
    case "plane":
      return new PlaneGeometry(2 * (a || 20), 2 * (b || 20));
    case "mesh": {
      const mesh = geom.mesh === null ? undefined : model.meshes[geom.mesh];
      if (!mesh) return null;
      const made = new BufferGeometry();
      made.setAttribute("position", new BufferAttribute(mesh.vertices, 3));
      made.setIndex(new BufferAttribute(mesh.faces, 1));
      const flat = made.toNonIndexed();
      flat.computeVertexNormals();
      return flat;
    }
    case "hfield":
      return geom.mesh === null ? null : terrain(model.fields[geom.mesh]);
    default:
      return null;
  }
}

function terrain(field: ModelShape["fields"][number] | undefined): BufferGeometry | null {
  if (!field) return null;
  const { rows, columns, heights } = field;
  const [x = 1, y = 1, z = 1] = field.size;
  const made = new PlaneGeometry(2 * x, 2 * y, columns - 1, rows - 1);
  const points = made.getAttribute("position");
  for (let row = 0; row < rows; row += 1) // a plane begins at its far edge, a field at its near one
    for (let column = 0; column < columns; column += 1) points.setZ((rows - 1 - row) * columns + column, heights[row * columns + column]! * z);
  made.computeVertexNormals();
  return made;
}
