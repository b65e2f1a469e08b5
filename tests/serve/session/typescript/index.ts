/** Does over its session what a client asks for, as the program in Rust beside it. */
import { session } from 'inferlet';

interface Input {
  do: string;
  n?: number;
  end?: string;
}

export async function main(input: Input): Promise<unknown> {
  switch (input.do) {
    case 'speak':
      session.send('text');
      session.send({ event: 'tick', n: 3 });
      console.log('printed');
      console.error('complained');
      session.sendFile(new Uint8Array([0, 1, 255]));
      return { spoken: 5 };
    case 'echo':
      for (;;) {
        let message: string;
        try {
          message = await session.receive();
        } catch {
          return 'the client left';
        }
        if (message === 'stop') return 'stopped';
        session.send(message);
      }
    case 'both': {
      const messages = await Promise.all([session.receive(), session.receive()]);
      return messages.sort();
    }
    case 'echo-file': {
      const data = await session.receiveFile();
      session.sendFile(data);
      return data.length;
    }
    case 'count':
      for (let i = 0; i < input.n!; i++) session.send(String(i));
      return input.n;
    case 'print':
      console.log('one');
      console.log('several\nlines', 2);
      if (input.end === 'fail') throw new Error('it failed as asked');
      return 'printed';
    default:
      throw new Error('it failed as asked');
  }
}
