/** Extracts an order from a text. The answer always fits the schema. */
import { Context, Model, runtime, Sampler } from 'inferlet';

interface Input {
  text: string;
  temperature?: number;
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

export async function main(input: Input): Promise<Order> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system('Answer with the order as JSON.').user(input.text);
  const options = { seed: input.seed, maxTokens: input.max_tokens ?? 400 };
  const generator = ctx.generate(Sampler.topP(input.temperature ?? 0, 0.95), options);
  return await generator.collectJson<Order>({ schema: order });
}
