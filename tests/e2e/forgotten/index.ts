/** Makes many objects that hold something of the engine, without `using` and without `release()`. */
import { chat, Context, Grammar, Matcher, Model, runtime } from 'inferlet';

const makers: Record<string, (model: Model) => unknown> = {
  contexts: (model) => new Context(model).append([97]),
  forks: (model) => new Context(model).fork(),
  decoders: (model) => new chat.Decoder(model),
  matchers: (model) => new Matcher(Grammar.fromRegex('a+'), model.tokenizer()),
};

export async function main(input: { kind: string; n: number }): Promise<number> {
  const model = Model.load(runtime.models()[0]!);
  const make = makers[input.kind]!;
  let made = 0;
  while (made < input.n) {
    make(model);
    made++;
    if (made % 1000 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
  }
  return made;
}
