/** Answers HTTP requests in a different way for each path. */
import * as fs from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Context, type HttpHandler, Model, runtime, Sampler } from 'inferlet';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const PATHS: Record<string, (request: Request, query: string) => Response | Promise<Response>> = {
  '/about': (request, query) =>
    Response.json({
      method: request.method,
      query,
      headers: Object.fromEntries(request.headers),
      user: runtime.username(),
      instance: runtime.instanceId(),
    }),
  '/echo': async (request) => new Response(await request.arrayBuffer(), { status: 201 }),
  '/pipe': (request) => new Response(request.body),
  '/stream': () => {
    let i = 0;
    const body = new ReadableStream({
      async pull(controller) {
        if (i === 3) return controller.close();
        controller.enqueue(bytes(`data: ${i++}\n\n`));
        await pause(50);
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  },
  '/cut': () => {
    let begun = false;
    const body = new ReadableStream({
      pull(controller) {
        if (begun) throw new Error('as asked');
        begun = true;
        controller.enqueue(bytes('half'));
      },
    });
    return new Response(body);
  },
  '/trap': () => {
    throw new Error('as asked');
  },
  '/none': () => undefined as unknown as Response,
  '/generate': async () => {
    using ctx = new Context(Model.load(runtime.models()[0]!));
    ctx.user('hello').cue();
    return new Response(await ctx.generate(Sampler.argmax(), { maxTokens: 8 }).collectText());
  },
  '/fetch': async (_, url) => {
    try {
      return new Response(await (await fetch(url)).bytes());
    } catch (error) {
      return new Response((error as Error).message, { status: 502 });
    }
  },
  '/clone': async (_, url) => {
    const answer = await fetch(url);
    const twin = answer.clone();
    const [a, b] = [await answer.text(), await twin.clone().text()];
    let refused = '';
    try {
      answer.clone();
    } catch (error) {
      refused = (error as Error).name;
    }
    return Response.json({ a, b, c: await twin.text(), same: answer.url === twin.url, refused });
  },
  '/post': async (_, url) => {
    const body = JSON.stringify({ a: [1, 'ü'] });
    const headers = { 'x-key': 'k', 'content-type': 'application/json' };
    const answer = await fetch(url, { method: 'POST', body, headers });
    return Response.json([answer.status, answer.ok, await answer.json()]);
  },
  '/library': async (_, url) => {
    try {
      const answer = await fetch(new Request(url), { redirect: 'manual', signal: AbortSignal.timeout(5000) });
      let text = '';
      const decoder = new TextDecoder();
      for await (const piece of answer.body!) text += decoder.decode(piece, { stream: true });
      return new Response(text, { status: answer.status });
    } catch (error) {
      return new Response((error as Error).message, { status: 502 });
    }
  },
  '/files': async () => {
    await fs.mkdir(join('/scratch', await sleep(1, 'a'), '.', 'b'), { recursive: true });
    await fs.writeFile('/scratch/a/text', 'one\n');
    await fs.appendFile('/scratch/a/text', 'two\n');
    const text = await fs.readFile('/scratch/a/text', 'utf8');
    const same = (await fs.readFile('/scratch/a/text')).toString() === text;
    const seen = [text, (await fs.readdir('/scratch/a')).sort(), (await fs.stat('/scratch/a/text')).size];
    await fs.rm('/scratch/a/text');
    await fs.rm('/scratch/a/b', { recursive: true });
    const gone = await fs.stat('/scratch/a/text').catch((error) => error.code);
    return Response.json([...seen, await fs.readdir('/scratch/a'), gone !== 'ENOENT' || !same]);
  },
};

const handler: HttpHandler = {
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const answer = PATHS[pathname];
    if (!answer) return new Response('no such path', { status: 404 });
    return answer(request, search.slice(1));
  },
};
export default handler;
