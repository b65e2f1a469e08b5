/**
 * A swarm: the main program launches workers, which are copies of itself, and puts questions into a queue. Each worker
 * takes the next question when it is free and pushes its answer into another queue. No program
 * assigns work, so a slow question keeps one worker busy and no other waiting.
 */
import { Context, messaging, Model, runtime, Sampler } from 'inferlet';

interface Input {
  role?: 'main' | 'worker';
  questions?: string[];
  workers?: number;
  max_tokens?: number;
  /** The names of the queues, which only this swarm uses. */
  queue?: string;
}

/** Answers questions until it is told to stop by an empty one. Returns how many it answered. */
async function work(queue: string, maxTokens: number): Promise<number> {
  const model = Model.load(runtime.models()[0]!);
  for (let answered = 0; ; answered++) {
    const question = await messaging.pull(`${queue}/questions`);
    if (question === '') return answered;
    using ctx = new Context(model);
    const answer = await ctx.user(question).generate(Sampler.argmax(), { maxTokens }).collectText();
    messaging.push(`${queue}/answers`, { question, answer });
  }
}

export async function main(input: Input): Promise<unknown> {
  const { questions = [], workers = 3, max_tokens: maxTokens = 64 } = input;
  if (input.role === 'worker') return await work(input.queue!, maxTokens);

  const queue = `swarm/${runtime.instanceId()}`;
  const job = { role: 'worker', queue, max_tokens: maxTokens };
  const children = Array.from({ length: workers }, () => runtime.launch('swarm', job));
  for (const question of questions) messaging.push(`${queue}/questions`, question);
  const answers: Record<string, string> = {};
  for (const _ of questions) {
    const { question, answer } = JSON.parse(await messaging.pull(`${queue}/answers`));
    answers[question] = answer;
  }
  for (const _ of children) messaging.push(`${queue}/questions`, '');
  await Promise.all(children.map((child) => child.result()));
  return answers;
}
