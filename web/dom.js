// Small helpers: elements, numbers and times as text, colours.

export const byId = (id) => document.getElementById(id);

/** Makes an element. Children are elements or texts; texts are never read as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Changes a text only if it differs, so that a reader's selection stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function count(number) {
  if (number < 10_000) return Math.round(number).toLocaleString('en');
  return number.toLocaleString('en', { notation: 'compact', maximumFractionDigits: 1 });
}

export function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) [number, unit] = [number / 1024, unit + 1];
  return `${number < 10 && unit > 0 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

export function milliseconds(number) {
  if (number >= 10_000) return `${(number / 1000).toFixed(0)} s`;
  if (number >= 1000) return `${(number / 1000).toFixed(1)} s`;
  return number >= 10 ? `${number.toFixed(0)} ms` : `${number.toFixed(number < 1 ? 2 : 1)} ms`;
}

export function age(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}

export const date = (seconds) =>
  new Date(seconds * 1000).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });

/** The end of a process's id, which tells it from the user's others. */
export const short = (id) => id.slice(id.lastIndexOf('-') + 1);

/** The value of a colour of style.css, in the present scheme. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Fits a canvas to its box at the screen's resolution, and returns its context. */
export function fit(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}
