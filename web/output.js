// Text that grows at its end. The beginning is dropped when it gets long.
const MOST_CHARACTERS = 100_000;

/** Appends to a <pre>, and follows its end unless the reader has scrolled up. */
export function append(pre, text, className = '') {
  if (text === '') return;
  const follows = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
  const last = pre.lastChild;
  if (last && last.className === className) {
    last.firstChild.appendData(text);
  } else {
    const part = document.createElement('span');
    part.className = className;
    part.append(text);
    pre.append(part);
  }
  let length = pre.textContent.length;
  while (length > MOST_CHARACTERS) {
    const first = pre.firstChild.firstChild;
    const gone = Math.min(first.length, length - MOST_CHARACTERS / 2);
    length -= gone;
    if (gone === first.length) pre.firstChild.remove();
    else first.deleteData(0, gone);
  }
  if (follows) pre.scrollTop = pre.scrollHeight;
}
