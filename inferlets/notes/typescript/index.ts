/** Keeps notes in files of /scratch, and reads them back. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';

const FOLDER = '/scratch/notes';

export async function main(input: { notes: string }): Promise<string> {
  await mkdir(FOLDER);
  for (const [number, note] of input.notes.split(',').entries()) {
    await writeFile(`${FOLDER}/${number}.txt`, note.trim());
  }
  const paths = (await readdir(FOLDER)).map((name) => `${FOLDER}/${name}`).sort();
  const lines = paths.map(async (path) => `${path}: ${await readFile(path, 'utf8')}`);
  return (await Promise.all(lines)).join('\n');
}
