/** Extracts an order from a text. The answer always fits the schema. */
import { Context, Model, runtime, Sampler } from 'inferlet';

interface Input {
  text: string;
  seed?: number;
  max_tokens?: number;
}

interface Order {
  pies: number;
  size: 'small' | 'large';
  warm: boolean;
}

const order = {
  type: 'object',
  properties: {
    pies: { type: 'integer', minimum: 0, maximum: 255 },
    size: { enum: ['small', 'large'] },
    warm: { type: 'boolean' },
  },
  required: ['pies', 'size', 'warm'],
  additionalProperties: false,
};

export async function main({ text, seed, max_tokens = 400 }: Input): Promise<Order> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system('Answer with the order as JSON.').user(text);
  const sampler = seed === undefined ? Sampler.argmax() : Sampler.topP(1.0, 0.95);
  const generator = ctx.generate(sampler, { seed, maxTokens: max_tokens });
  return await generator.collectJson<Order>({ schema: order });
}
