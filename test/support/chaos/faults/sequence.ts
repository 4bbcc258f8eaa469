import type { Scene } from '../scene.js';
import type { Fault } from './fault.js';

/** Injects the faults one after another, in an order chosen by the seed. */
export async function oneAfterAnother(scene: Scene, faults: readonly Fault[]): Promise<void> {
  for (const fault of shuffled(faults, scene.random)) {
    await fault.inject(scene);
    await scene.sleep(scene.random() * 300);
  }
}

/** Returns the faults with these names, in their order. Throws if one has another name by now. */
export function named(faults: readonly Fault[], ...names: readonly string[]): readonly Fault[] {
  return names.map((name) => {
    const found = faults.find((fault) => fault.name === name);
    if (found === undefined) throw new Error(`there is no fault "${name}"`);
    return found;
  });
}

function shuffled<T>(all: readonly T[], random: () => number): readonly T[] {
  const left = [...all];
  return all.map(() => left.splice(Math.floor(random() * left.length), 1)[0]);
}
