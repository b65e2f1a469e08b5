/** One step of a generation, handed to the user before it runs. */
import { whole } from './check.ts';
import { SlotHandle, type Output, type ProbeHandle } from './output.ts';
import { checkProbe, type Probe } from './probe.ts';

export interface StepProbe {
  readonly row: number;
  readonly probe: Probe;
  readonly handle: ProbeHandle;
}

/** Runs a step with these probes. */
export type RunStep = (probes: readonly StepProbe[], sample: boolean) => Promise<Output>;

const NO_PROBES: readonly StepProbe[] = [];

/** One step of a generation. `for await (const step of g)` gives them. */
export class GenStep {
  // One field: an interpreter spends most of a constructor's time on its fields, and there is one step a token.
  readonly #order: {
    /** Undefined once the step was executed. */
    run: RunStep | undefined;
    probes: StepProbe[] | undefined;
    sample: boolean;
  };

  /** @internal */
  constructor(run: RunStep) {
    this.#order = { run, probes: undefined, sample: true };
  }

  /** Chooses nothing in this step: read a probe, then give your own choice to `g.accept`. */
  clearSampler(): this {
    this.#order.sample = false;
    return this;
  }

  /** Reads a probe in this step; index 0 is the row that the step samples. */
  probe(idx: number, probe: Probe): ProbeHandle {
    const handle = new SlotHandle(1);
    this.#order.probes ??= [];
    this.#order.probes.push({ row: whole('idx', idx), probe: checkProbe(probe), handle });
    return handle;
  }

  /** Runs the pass and folds its result into the generator. */
  execute(): Promise<Output> {
    const order = this.#order;
    const run = order.run;
    if (!run) return Promise.reject(new Error('a step is executed once: take the next one'));
    order.run = undefined;
    return run(order.probes ?? NO_PROBES, order.sample);
  }
}
