/** Fetches a page by HTTP. */
export async function main(input: { url: string }): Promise<string> {
  const response = await fetch(input.url, { headers: { accept: 'text/plain' } });
  return `${response.status}: ${await response.text()}`;
}
