/** The smallest inferlet: a parameter in, a text out. */
interface Input {
  name?: string;
}

export async function main({ name = 'world' }: Input): Promise<string> {
  return `Hello, ${name}!`;
}
