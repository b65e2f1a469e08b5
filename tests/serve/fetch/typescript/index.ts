/** Fetches a URL. */
export async function main(input: { url: string }): Promise<string> {
  try {
    const response = await fetch(input.url);
    return `${response.status} ${await response.text()}`;
  } catch (error) {
    return `failed: ${String(error)}`;
  }
}
