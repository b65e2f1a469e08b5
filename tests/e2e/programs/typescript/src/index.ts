/** Programs as users write them from the reference documents alone. Each checks what it relies on. */
import { main as beamSearch } from './beam-search.js';
import { main as guidance } from './guidance.js';
import { main as messages } from './messages.js';
import { main as promptLookup } from './prompt-lookup.js';
import { main as watermark } from './watermark.js';
import { main as window } from './window.js';

const programs: Record<string, (input: object) => Promise<object>> = {
  'beam-search': beamSearch,
  guidance,
  messages,
  'prompt-lookup': promptLookup,
  watermark,
  window,
};

export async function main(input: { program: string }): Promise<object> {
  return programs[input.program]!(input);
}
