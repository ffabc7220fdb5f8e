'use strict';
// The sweep on a phone: nothing is cut, and what is wider than the screen says that it scrolls.
(() => {
  check(innerWidth === 390 && document.documentElement.scrollWidth <= 390, `${document.documentElement.scrollWidth} px in a window of ${innerWidth}`);
  for (const box of document.querySelectorAll('.scroll')) {
    const frame = box.parentNode, hint = frame.previousSibling, wider = box.scrollWidth > box.clientWidth + 1;
    check(wider === frame.classList.contains('after') && wider === !hint.hidden, `${box.getAttribute('aria-label')}: ${box.scrollWidth} in ${box.clientWidth}, ${frame.className}`);
  }
  check(document.querySelector('#all-runs .frame').classList.contains('after'), 'the table fits?');
  const heat = document.querySelector('#topologies .scroll');
  check(heat.scrollWidth <= heat.clientWidth, `topologies are ${heat.scrollWidth} wide in ${heat.clientWidth}`);
  const box = document.querySelector('#pipeline-timeline .chart'), picture = box.querySelector('svg'), inside = box.getBoundingClientRect();
  check(box.scrollWidth <= box.clientWidth && picture.getBoundingClientRect().right <= inside.right, 'the timeline is cut');
  const scale = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
  check(scale > 0.95, `the timeline is drawn at ${scale} of its size`);
  for (const text of picture.querySelectorAll('text')) {
    const at = text.getBoundingClientRect();
    check(at.left >= inside.left && at.right <= inside.right, `"${text.textContent}" is outside`);
  }
  const marks = [...picture.querySelectorAll('text')].filter(t => t.textContent.endsWith('s') && !/stage|wards/.test(t.textContent)).map(t => t.getBoundingClientRect());
  check(marks.length >= 3 && marks.every((m, i) => i === 0 || m.left > marks[i - 1].right), 'marks of time overlap');
  for (const canvas of document.querySelectorAll('canvas')) {
    check(canvas.getBoundingClientRect().right <= innerWidth, `${canvas.getAttribute('aria-label')} is cut`);
  }
  const tiles = [...document.querySelectorAll('.fact')], tops = new Map();
  for (const t of tiles) tops.set(t.offsetTop, (tops.get(t.offsetTop) || 0) + 1);
  check([...tops.values()].every(n => n === 2), `tiles: ${[...tops.values()]}`);
  check(tiles.every(t => t.scrollWidth <= t.clientWidth), 'a tile is cut');
  finish();
})();
