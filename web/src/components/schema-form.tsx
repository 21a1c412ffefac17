/** A form for a value that a JSON schema describes. */
import { words } from "../format";

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  maxLength?: number;
  additionalProperties?: boolean | JsonSchema;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

/** A schema with its reference followed, and whether null is allowed. */
function resolved(schema: JsonSchema, root: JsonSchema): { schema: JsonSchema; isNullable: boolean } {
  const found = schema.$ref ? { ...root.$defs?.[schema.$ref.split("/").at(-1)!], ...(schema.description ? { description: schema.description } : {}) } : schema;
  const parts = found.anyOf ?? (Array.isArray(found.type) ? found.type.map((type) => ({ ...found, type })) : null);
  if (!parts) return { schema: found, isNullable: false };
  const main = parts.find((each) => each.type !== "null") ?? {};
  return { schema: { description: found.description, title: found.title, ...resolved(main, root).schema }, isNullable: parts.some((each) => each.type === "null") };
}

/** A value of the right shape with nothing in it. */
export function blank(schema: JsonSchema, root: JsonSchema = schema): unknown {
  if (schema.default !== undefined) return schema.default;
  const { schema: own, isNullable } = resolved(schema, root);
  if (own.default !== undefined) return own.default;
  if (own.const !== undefined) return own.const;
  if (isNullable) return null;
  if (own.enum) return own.enum[0];
  if (own.properties) return Object.fromEntries(Object.entries(own.properties).map(([name, each]) => [name, blank(each, root)]));
  return { array: [], string: "", number: 0, integer: 0, boolean: false, object: {} }[String(own.type)] ?? null;
}

interface FieldProps {
  schema: JsonSchema;
  root?: JsonSchema;
  value: unknown;
  onChange: (value: unknown) => void;
  label: string;
}

export function SchemaForm({ schema, root = schema, value, onChange, label }: FieldProps) {
  const { schema: own, isNullable } = resolved(schema, root);
  const help = own.description && <span className="small soft">{own.description}</span>;
  const title = words(label);
  if (own.properties) {
    const record = (value ?? {}) as Record<string, unknown>;
    return (
      <fieldset className="column">
        <legend>{title}</legend>
        {help}
        {Object.entries(own.properties).map(([name, each]) => <SchemaForm key={name} schema={each} root={root} label={name} value={record[name]} onChange={(next) => onChange({ ...record, [name]: next })} />)}
      </fieldset>
    );
  }
  if (own.type === "array") {
    const items = (Array.isArray(value) ? value : []) as unknown[];
    const set = (index: number, next: unknown) => onChange(items.map((each, place) => (place === index ? next : each)));
    return (
      <fieldset className="column">
        <legend>{title}</legend>
        {help}
        {items.map((each, index) => (
          <div key={index} className="row" style={{ alignItems: "flex-start" }}>
            <div className="grow"><SchemaForm schema={own.items ?? {}} root={root} label={`${label} ${index + 1}`} value={each} onChange={(next) => set(index, next)} /></div>
            <button type="button" className="plain" aria-label={`Remove ${title} ${index + 1}`} onClick={() => onChange(items.filter((_, place) => place !== index))}>×</button>
          </div>
        ))}
        <button type="button" style={{ alignSelf: "flex-start" }} onClick={() => onChange([...items, blank(own.items ?? {}, root)])}>Add</button>
      </fieldset>
    );
  }
  if (own.enum) return <label className="field">{title}{help}<select value={String(value ?? "")} onChange={(event) => onChange(own.enum!.find((each) => String(each) === event.target.value) ?? null)}>{isNullable && <option value="">none</option>}{own.enum.map((each) => <option key={String(each)} value={String(each)}>{words(String(each))}</option>)}</select></label>;
  if (own.type === "boolean") return <label className="row"><input type="checkbox" checked={Boolean(value)} onChange={(event) => onChange(event.target.checked)} />{title}{help}</label>;
  if (own.type === "number" || own.type === "integer") return <label className="field">{title}{help}<input type="number" step={own.type === "integer" ? 1 : "any"} value={value === null || value === undefined ? "" : String(value)} onChange={(event) => onChange(event.target.value === "" ? (isNullable ? null : 0) : Number(event.target.value))} /></label>;
  if (own.type === "string") {
    const text = String(value ?? "");
    const isCode = /code|source|reward|judge/.test(label) || text.includes("\n");
    const change = (next: string) => onChange(next === "" && isNullable ? null : next);
    return <label className="field">{title}{help}{isCode ? <textarea rows={Math.min(24, Math.max(4, text.split("\n").length + 1))} className="mono" spellCheck={false} value={text} onChange={(event) => change(event.target.value)} /> : <textarea rows={text.length > 90 ? 3 : 1} value={text} onChange={(event) => change(event.target.value)} />}</label>;
  }
  return <JsonField title={title} value={value} onChange={onChange} help={own.description} />;
}

/** A value without a fixed shape, such as a map of names: as JSON, passed on while it is valid. */
function JsonField({ title, value, onChange, help }: { title: string; value: unknown; onChange: (value: unknown) => void; help?: string }) {
  return (
    <label className="field">{title}{help && <span className="small soft">{help}</span>}
      <textarea rows={2} className="mono" spellCheck={false} defaultValue={JSON.stringify(value ?? {})} onChange={(event) => { try { onChange(JSON.parse(event.target.value)); } catch { /* wait until it is valid */ } }} />
    </label>
  );
}
