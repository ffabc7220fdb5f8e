'use strict';
// The sweep on paper: sections stay whole, pages are full, and afterwards the screen is as it was.
(() => {
  const paper = 277 / 25.4 * 96;  // height of A4 without its margins, in CSS pixels
  type('dp2');
  heading('tokens/s').click(); heading('tokens/s').click();
  const select = document.querySelector('#pipeline-timeline select');
  select.value = '1'; select.dispatchEvent(new Event('change'));
  const shown = () => body().map(tr => tr.querySelector('.name').textContent).join();
  const before = [shown(), document.querySelector('#pipeline-timeline p + p, #pipeline-timeline div p').textContent];
  check(before[0] === 'one-rank,dp2-zero3,dp2,dp2-zero1' || before[0] === 'dp2-zero3,dp2,dp2-zero1', before[0]);
  dispatchEvent(new Event('beforeprint'));
  const width = document.body.clientWidth;
  check(Math.abs(width - 190 / 25.4 * 96) < 2, `${width} px wide`);
  check(shown() === before[0], 'another order on paper');
  for (const selector of ['nav', 'select', '.saves', '.minor', '#filter']) {
    check([...document.querySelectorAll(selector)].every(node => getComputedStyle(node).display === 'none'), `${selector} on paper`);
  }
  for (const canvas of document.querySelectorAll('canvas')) {
    const at = canvas.getBoundingClientRect(), name = canvas.getAttribute('aria-label');
    check(at.right <= width + 1 && Math.abs(at.width / at.height / (canvas.width / canvas.height) - 1) < 0.02, `${name} is distorted or cut`);
    check(canvas.width >= 2.5 * at.width, `${name} is coarse`);
  }
  for (const box of document.querySelectorAll('.scroll')) {
    check(box.firstChild.getBoundingClientRect().right <= width + 1 && getComputedStyle(box).overflow === 'visible', `${box.getAttribute('aria-label')} is cut`);
    check(getComputedStyle(box.parentNode, '::after').content === 'none', 'a shadow on paper');
  }
  const broad = el('table'), main = document.getElementById('main');  // as with many columns that differ
  broad.style.width = '2000px'; scroller(main, broad, 'broad', ''); scrollers.at(-1)();
  check(broad.getBoundingClientRect().right <= width + 1 && broad.getBoundingClientRect().right > 0.9 * width, `a broad table ends at ${broad.getBoundingClientRect().right}`);
  main.lastChild.remove(); scrollers.pop();
  // No heading is parted from its chart, and since no chart is high, no page stays half empty.
  for (const section of document.querySelectorAll('main section')) {
    const whole = section.classList.contains('whole'), h2 = section.querySelector('h2'), height = section.getBoundingClientRect().height;
    check(getComputedStyle(h2).breakAfter === 'avoid' && getComputedStyle(h2.nextSibling).breakAfter === 'avoid', `${section.id}: a heading alone`);
    check(whole === !['all-runs', 'run-it-again'].includes(section.id) && (!whole || getComputedStyle(section).breakInside === 'avoid'), `${section.id} may be parted`);
    check(!whole || height < 0.45 * paper, `${section.id} is ${height} px high, a page ${paper}`);
  }
  check([...document.querySelectorAll('details')].every(d => d.open), 'commands are closed');
  check(getComputedStyle(document.documentElement).colorScheme === 'light', 'dark paper');
  dispatchEvent(new Event('afterprint'));
  check(!document.documentElement.dataset.theme && document.body.clientWidth > 1100, 'the screen is still paper');
  check(document.getElementById('filter').value === 'dp2' && shown() === before[0] && heading('tokens/s').parentNode.getAttribute('aria-sort') === 'ascending', `filter and order are lost: ${shown()}`);
  check(document.querySelector('#pipeline-timeline select').value === '1', 'the chosen run is lost');
  check([...document.querySelectorAll('canvas')].every(c => Chart.getChart(c)) && Object.keys(Chart.instances).length === document.querySelectorAll('canvas').length, 'charts are left over');
  finish();
})();
