import { PieClient } from 'pie-client';

const client = await PieClient.connect(process.argv[2] ?? 'ws://127.0.0.1:8080', { username: 'ada' });
const launched = await client.launchProcess('text-completion', { prompt: 'Hello', temperature: 0 });
for await (const text of launched.stream()) process.stdout.write(text);
await client.close();
