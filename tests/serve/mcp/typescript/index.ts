/** Asks MCP servers what its input says, as the program in Rust beside it. */
import { mcp } from 'inferlet';

function ask([what, name, first, second]: string[]): string {
  if (what === 'servers') return mcp.availableServers().join(' ');
  const server = mcp.connect(name ?? '');
  switch (what) {
    case 'tools':
      return server.listTools();
    case 'call':
      return server.callTool(first ?? '', second);
    case 'resources':
      return server.listResources();
    case 'read':
      return server.readResource(first ?? '');
    case 'prompts':
      return server.listPrompts();
    default:
      return server.getPrompt(first ?? '', second);
  }
}

export function main(input: { calls: string[][] }): string[] {
  return input.calls.map((call) => {
    try {
      return ask(call);
    } catch (error) {
      const { message, code } = error as { message: string; code?: number };
      return code === undefined ? `error: ${message}` : `error: ${message} (code ${code})`;
    }
  });
}
