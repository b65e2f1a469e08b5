/** Answers a question by arithmetic: the model writes an expression in a language of our own, and the inferlet evaluates it. */
import { Context, ebnf, Model, runtime, Sampler } from 'inferlet';

/** The text is complete with its "=". */
const language = ebnf(String.raw`
start: expression "="
expression: term (("+" | "-") term)*
term: factor (("*" | "/") factor)*
factor: NUMBER | "(" expression ")"
NUMBER: /(0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?/
`);

interface Input {
  question: string;
  temperature?: number;
  seed?: number;
  max_tokens?: number;
}

/** Evaluates a text of the language, rule by rule. There are no syntax errors to look for. */
class Calculator {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  expression(): number {
    let value = this.#term();
    for (let operator; (operator = this.#take('+-')); ) {
      const term = this.#term();
      value = operator === '+' ? value + term : value - term;
    }
    return value;
  }

  /** The next character if it is one of these; else nothing. */
  #take(choices: string): string {
    const found = this.#text[this.#at] ?? '';
    if (found === '' || !choices.includes(found)) return '';
    this.#at += 1;
    return found;
  }

  #term(): number {
    let value = this.#factor();
    for (let operator; (operator = this.#take('*/')); ) {
      const factor = this.#factor();
      value = operator === '*' ? value * factor : value / factor;
    }
    return value;
  }

  #factor(): number {
    if (this.#take('(')) {
      const value = this.expression();
      this.#take(')');
      return value;
    }
    let digits = '';
    for (let digit; (digit = this.#take('0123456789.')); ) digits += digit;
    return Number(digits);
  }
}

export async function main(input: Input): Promise<{ expression: string; value: number }> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system('Answer with an arithmetic expression and an equals sign, such as (2+3)*4=');
  ctx.user(input.question);
  const options = {
    constrain: language,
    seed: input.seed,
    maxTokens: input.max_tokens ?? 200,
  };
  const text = await ctx.generate(Sampler.topP(input.temperature ?? 0, 0.95), options).collectText();
  if (!text.endsWith('=')) {
    throw new Error(`the expression is not complete after ${options.maxTokens} tokens: ${text}`);
  }
  const value = new Calculator(text).expression();
  if (!Number.isFinite(value)) {
    throw new Error(`the expression divides by zero or is too large: ${text}`);
  }
  return { expression: text.slice(0, -1), value };
}
