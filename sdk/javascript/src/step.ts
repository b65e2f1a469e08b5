/** One step of a generation, handed to the user before it runs. */
import { SlotHandle, type Output, type ProbeHandle } from './output.ts';
import type { Probe } from './probe.ts';

export interface StepProbe {
  readonly row: number;
  readonly probe: Probe;
  readonly handle: ProbeHandle;
}

/** One step of a generation. `for await (const step of g)` gives them. */
export class GenStep {
  readonly #run: (probes: readonly StepProbe[], sample: boolean) => Promise<Output>;
  readonly #probes: StepProbe[] = [];
  #sample = true;
  #executed = false;

  /** @internal */
  constructor(run: (probes: readonly StepProbe[], sample: boolean) => Promise<Output>) {
    this.#run = run;
  }

  /** Chooses nothing in this step: read a probe, then give your own choice to `g.accept`. */
  clearSampler(): this {
    this.#sample = false;
    return this;
  }

  /** Reads a probe in this step; index 0 is the row that the step samples. */
  probe(index: number, probe: Probe): ProbeHandle {
    const handle = new SlotHandle(1);
    this.#probes.push({ row: index, probe, handle });
    return handle;
  }

  /** Runs the pass and folds its result into the generator. */
  execute(): Promise<Output> {
    if (this.#executed) {
      return Promise.reject(new Error('a step is executed once: take the next one'));
    }
    this.#executed = true;
    return this.#run(this.#probes, this.#sample);
  }
}
