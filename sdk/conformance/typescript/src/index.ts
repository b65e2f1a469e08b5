/** The conformance table in TypeScript: see ../../README.md for what each case does. */
import { chainCases } from './chains.ts';
import { constraintCases } from './constraints.ts';
import { contextCases } from './contexts.ts';
import { forwardCases } from './forwards.ts';
import { generateCases } from './generations.ts';
import { messageCases } from './messages.ts';
import { adapterCases } from './adapters.ts';
import { modelCases } from './models.ts';
import { refusalCases } from './refusals.ts';
import { speculationCases } from './speculations.ts';
import type { Cases, Input } from './case.ts';

const CASES: Cases = {
  ...adapterCases,
  ...modelCases,
  ...contextCases,
  ...forwardCases,
  ...generateCases,
  ...chainCases,
  ...constraintCases,
  ...speculationCases,
  ...messageCases,
  ...refusalCases,
};

type Result = { case: string; ok: unknown } | { case: string; error: string };

export async function main(input: {
  cases: { case: string; input?: Input }[];
}): Promise<{ results: Result[] }> {
  const results: Result[] = [];
  for (const { case: name, input: given } of input.cases) {
    try {
      const run = CASES[name];
      if (!run) throw new Error(`there is no case ${name}`);
      results.push({ case: name, ok: rounded(await run(given ?? {})) });
    } catch (error) {
      results.push({ case: name, error: error instanceof Error ? error.message : String(error) });
    }
  }
  return { results };
}

/** Floats to 4 places, everywhere; undefined as null. */
function rounded(value: unknown): unknown {
  if (value === undefined) return null;
  if (typeof value === 'number' && !Number.isInteger(value)) return Math.round(value * 1e4) / 1e4;
  if (Array.isArray(value)) return value.map(rounded);
  if (ArrayBuffer.isView(value)) return Array.from(value as Float32Array, rounded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rounded(item)]));
}
