import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { linesOfLua, luaMutantsOf } from './lua-mutants.js';
import { instrumented, linesOfCode, type Mutant, mutantsOf } from './mutants.js';

/** What is measured. Lua scripts are a folder of their own. */
const MEASURED = ['lib/core', 'lib/stores/token', 'lib/locked'];
const SCRIPTS = 'lib/stores/token/scripts';
const EMBEDDED = 'lib/stores/token/scripts.ts';

/** A mutant of the sample. */
export interface Sampled extends Mutant {
  readonly id: number;
  readonly folder: string;
  /** The text of each script that a mutant in Lua changes, by its name. */
  readonly scripts?: Readonly<Record<string, string>>;
}

export interface Folder {
  readonly name: string;
  readonly lines: number;
  /** How many mutants it has. Some of them are in the sample. */
  readonly all: number;
}

interface Candidates extends Folder {
  readonly mutants: readonly Mutant[];
}

/** A copy of the repository, in which the library has switches. */
export class Tree {
  constructor(
    readonly root: string,
    readonly folder: string,
  ) {}

  /** Copies what git tracks, and what it does not ignore. Returns a digest of all of it. */
  copy(): string {
    this.remove();
    const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: this.root, encoding: 'utf8' });
    const digest = createHash('sha256');
    for (const file of listed.trim().split('\n').toSorted()) {
      if (file === 'node_modules') continue;
      mkdirSync(dirname(join(this.folder, file)), { recursive: true });
      cpSync(join(this.root, file), join(this.folder, file));
      if (/^(?:lib|test)\//.test(file)) digest.update(file).update(this.read(file));
    }
    symlinkSync(join(this.root, 'node_modules'), join(this.folder, 'node_modules'));
    return digest.digest('hex');
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Draws a sample, stratified by folder. The first of them are also a stratified sample. */
  sample(count: number, seed: number): { readonly sample: readonly Sampled[]; readonly folders: readonly Folder[] } {
    const rankOf = ({ key }: Mutant): string => createHash('sha256').update(`${seed} ${key}`).digest('hex');
    const folders = this.candidates();
    const lines = folders.reduce((sum, folder) => sum + folder.lines, 0);
    const drawn = folders.flatMap((folder) => {
      const share = (count * folder.lines) / lines;
      const ranked = folder.mutants
        .map((mutant) => [rankOf(mutant), mutant] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, mutant]) => mutant);
      const mutants = folder.name === SCRIPTS ? this.embeddable(ranked, share) : ranked.slice(0, Math.round(share));
      return mutants.map((mutant, i) => ({ place: (i + 0.5) / share, mutant, folder: folder.name }));
    });
    const ordered = drawn.toSorted((a, b) => a.place - b.place);
    const sample = ordered.map(({ mutant, folder }, i) => ({ ...mutant, folder, id: i + 1 }));
    return { sample, folders };
  }

  /** Writes the library with a switch at each mutant. */
  instrument(sample: readonly Sampled[]): void {
    const inLua = sample.filter(({ scripts }) => scripts !== undefined);
    const inCode = sample.filter(({ scripts }) => scripts === undefined);
    for (const file of new Set(inCode.map((mutant) => mutant.file))) {
      this.write(
        file,
        instrumented(
          this.read(file),
          inCode.filter((mutant) => mutant.file === file),
        ),
      );
    }
    const variants = Object.fromEntries(inLua.map(({ id, scripts }) => [id, scripts]));
    this.write(EMBEDDED, `${this.read(EMBEDDED)}\n${SWITCH.replace('VARIANTS', JSON.stringify(variants))}`);
  }

  private candidates(): readonly Candidates[] {
    const folders = new Map<string, { lines: number; mutants: Mutant[] }>();
    for (const file of MEASURED.flatMap((folder) => this.filesOf(folder))) {
      const name = file.startsWith(`${SCRIPTS}/`) ? SCRIPTS : dirname(file);
      const folder = folders.get(name) ?? { lines: 0, mutants: [] };
      folders.set(name, folder);
      const text = this.read(file);
      const isLua = file.endsWith('.lua');
      folder.lines += isLua ? linesOfLua(text) : linesOfCode(text);
      folder.mutants.push(...(isLua ? luaMutantsOf(file, text) : mutantsOf(file, text)));
    }
    return [...folders].map(([name, { lines, mutants }]) => ({ name, lines, all: mutants.length, mutants }));
  }

  private filesOf(folder: string): readonly string[] {
    return readdirSync(join(this.folder, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file}`)
      .filter((file) => /\.(?:ts|lua)$/.test(file) && file !== EMBEDDED)
      .toSorted();
  }

  /** Returns the first mutants that the embedder accepts, with the scripts that they change. */
  private embeddable(mutants: readonly Mutant[], share: number): readonly Mutant[] {
    const before = this.embed();
    const found: Mutant[] = [];
    for (const mutant of mutants) {
      if (found.length >= Math.round(share)) break;
      const source = this.read(mutant.file);
      this.write(mutant.file, source.slice(0, mutant.start) + mutant.replacement + source.slice(mutant.end));
      try {
        const changed = Object.entries(this.embed()).filter(([name, lua]) => before[name] !== lua);
        if (changed.length > 0) found.push(Object.assign({}, mutant, { scripts: Object.fromEntries(changed) }));
      } catch {
        // The embedder refuses it, so it could not be committed.
      }
      this.write(mutant.file, source);
    }
    this.embed();
    return found;
  }

  private embed(): Readonly<Record<string, string>> {
    execFileSync(process.execPath, ['tools/embed-lua.mjs', SCRIPTS], { cwd: this.folder, stdio: 'pipe' });
    const module = { exports: {} as { scripts: Record<string, { lua: string }> } };
    const { outputText } = ts.transpileModule(this.read(EMBEDDED), {
      compilerOptions: { module: ts.ModuleKind.CommonJS },
    });
    runInNewContext(outputText, module);
    return Object.fromEntries(Object.entries(module.exports.scripts).map(([name, { lua }]) => [name, lua]));
  }

  read(file: string): string {
    return readFileSync(join(this.folder, file), 'utf8');
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(join(this.folder, file)), { recursive: true });
    writeFileSync(join(this.folder, file), text);
  }
}

/** A script is read when its digest is made and each time it is sent as a whole. */
const SWITCH = `const variants: Record<string, Record<string, string>> = VARIANTS;
for (const [name, script] of Object.entries(scripts)) {
  const { lua } = script;
  const own = Object.keys(variants).filter((id) => name in variants[id]);
  const isActive = (id: string) => globalThis.isMutant?.(Number(id), true);
  const get = () => own.reduce((text, id) => (isActive(id) ? variants[id][name] : text), lua);
  Object.defineProperty(script, 'lua', { get });
}
`;
