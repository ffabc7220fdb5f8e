'use strict';
// As report_browser.js: three runs of 400 to 600 MiB beside one that would need 88 GiB, with a limit near them or far away.
(() => {
  document.documentElement.dataset.opened = Math.round(performance.now());
  const wrong = [];
  const check = (good, what) => { if (!good) wrong.push(what); };
  const chart = Chart.getChart(document.querySelector('#memory-per-rank canvas')), x = chart.scales.x;
  const said = document.getElementById('memory-per-rank').textContent, limit = rows[0].limit / 2 ** 20;
  const sizes = rows.map(r => r.memory_rank / 2 ** 20), near = limit === 1000;
  check(Math.max(...sizes) === 90000, `sizes: ${sizes}`);
  check(x.options.title.text === 'MiB', `unit: ${x.options.title.text}`);
  check(Math.abs(x.max - 1.1 * (near ? 1000 : 700)) < 1e-6, `the axis ends at ${x.max}`);  // what one grew by, or the limit
  check(chart.options.outline.capacity === (near ? 1000 : 0), `a line at ${chart.options.outline.capacity}`);
  check(said.includes(near ? 'Dashed: the smallest limit, 1000.00 MiB.' : 'The limit, 4.88 GiB, is far to the right.'), said);
  const labels = chart.data.labels.join('; ');
  check(labels.includes('size 3 (OOM): 87.89 GiB') && (labels.match(/GiB|MiB/g) || []).length === 1, `names: ${labels}`);
  check(chart.getDatasetMeta(0).data.every((bar, i) => sizes[i] > x.max || bar.x < x.right), 'a bar of what ran is cut');
  document.documentElement.dataset.result = wrong.length ? wrong.join('; ') : 'ok';
})();
